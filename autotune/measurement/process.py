"""Runs as the controller sees them: a warm zygote, and live runs that can be timed, paused and
killed.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from autotune.errors import MeasurementError
from autotune.measurement.jobs import Call
from autotune.measurement.measurement import Failure
from autotune.workload.conversation import (
    Answer,
    Command,
    Crashed,
    Ended,
    Ready,
    RunWindow,
    Tell,
    Unsupported,
)
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Window

_WARM_UP_LIMIT_SECONDS = 180.0
_OUTPUT_KEPT_BYTES = 4000


class RunEnded(Exception):  # an ending is not always an error
    """A live run is over: by itself (`failure.kind` "ended", with its last `window`), or by a
    failure.
    """

    def __init__(self, failure: Failure, window: Window | None = None) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.window = window


class NotPossible(Exception):
    """This program cannot be run in the mode that was asked for; the run goes on."""


class Zygote:
    """The warm process that runs are forked from; a context manager, at whose end every run is
    gone.

    Args:
        environment: what is added to this process's environment for the zygote and all its runs.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        root = str(Path(__file__).resolve().parents[2])
        start = f"import sys; sys.path.append({root!r}); from autotune.measurement.zygote import serve; serve({theirs.fileno()})"
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", start],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        theirs.close()
        self._line = Connection(ours.detach())
        self._exits: dict[int, int] = {}
        self._warm = False

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and every run that is still alive."""
        self._line.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def start(self, job: Any, *, limit_seconds: float) -> "ProcessRun":
        """Fork a run of `job` (a `child.Job`); its first step must be done within
        `limit_seconds`.
        """
        return self._fork(job, limit_seconds)

    def call(
        self, function: Callable[..., Any], *arguments: Any, limit_seconds: float = 60.0
    ) -> Any:
        """What `function(*arguments)` gives in a fresh process; it must be importable there.

        Raises:
            RunEnded: it raised, hung or died.
        """
        run = self._fork(Call(function=function, arguments=arguments), limit_seconds)
        try:
            return run.answer()
        finally:
            run.kill()

    def _fork(self, job: Any, limit_seconds: float) -> "ProcessRun":
        self._await_warm()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output = tempfile.TemporaryFile()
        self._line.send(job)
        send_handle(self._line, theirs.fileno(), None)
        send_handle(self._line, output.fileno(), None)
        theirs.close()
        forked = self._next_report(_WARM_UP_LIMIT_SECONDS)
        return ProcessRun(self, forked.pid, Connection(ours.detach()), output, limit_seconds)

    def exit_status(self, pid: int) -> int | None:
        """How the run `pid` exited; None while it lives."""
        while self._line.poll(0):
            self._take(self._receive())
        return self._exits.get(pid)

    def _await_warm(self) -> None:
        if self._warm:
            return
        if not self._line.poll(_WARM_UP_LIMIT_SECONDS):
            raise MeasurementError(
                "torch did not load within 180 s", "The machine may be overloaded; try again."
            )
        self._receive()
        self._warm = True

    def _next_report(self, seconds: float) -> Any:
        while True:
            if not self._line.poll(seconds):
                raise MeasurementError("the warm process does not answer", "Try again.")
            report = self._receive()
            if not self._take(report):
                return report

    def _take(self, report: Any) -> bool:
        if hasattr(report, "status"):
            self._exits[report.pid] = report.status
            return True
        return False

    def _receive(self) -> Any:
        try:
            return self._line.recv()
        except (EOFError, OSError):
            self._log.seek(0)
            text = self._log.read().decode(errors="replace").strip()
            raise MeasurementError(
                "the process that runs are forked from has died",
                f"It said: {text[-1500:]}" if text else "",
            ) from None


class ProcessRun:
    """A live run in a process of its own. Not safe for use from several threads."""

    def __init__(
        self, zygote: Zygote, pid: int, line: Connection, output: IO[bytes], limit_seconds: float
    ) -> None:
        self._zygote = zygote
        self.pid = pid
        self._line = line
        self._output = output
        self._startup_limit_seconds = limit_seconds
        self._ready = False
        self._paused = False
        self._over = False
        self.step_limit_seconds = (
            limit_seconds  # how long any one step may take before the run counts as hung
        )
        self.startup_seconds = 0.0

    def await_first_step(self, while_waiting: Callable[[], None] | None = None) -> None:
        """Wait until the first optimizer step is done.

        Raises:
            RunEnded: the program ended before it, crashed, or took longer than its limit.
        """
        if self._ready:
            return
        report = self._await(self._startup_limit_seconds, "its first training step", while_waiting)
        if not isinstance(report, Ready):
            raise RunEnded(
                Failure(kind="crashed", reason=f"the run answered {report!r}", output=self.output())
            )
        self._ready = True
        self.startup_seconds = report.startup_seconds

    def answer(self) -> object:
        """What the called function returned."""
        report = self._await(self._startup_limit_seconds, "an answer", None)
        assert isinstance(report, Answer), report
        return report.value

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        """See `workload.window.LiveRun`.

        Raises:
            RunEnded: the program ended, crashed, hung or was killed.
            NotPossible: the program cannot be run in `mode`.
        """
        self.await_first_step()
        limit = seconds + (steps + 1) * self.step_limit_seconds
        report = self._say(
            RunWindow(seconds=seconds, steps=steps, mode=mode), limit, "its next step"
        )
        if isinstance(report, Unsupported):
            raise NotPossible(report.reason)
        assert isinstance(report, Window), report
        return report

    def seen(self) -> Seen:
        """See `workload.window.LiveRun`."""
        self.await_first_step()
        report = self._say(Tell(), self.step_limit_seconds, "an answer")
        assert isinstance(report, Seen), report
        return report

    def pause(self) -> None:
        """Stop the run and its workers where they are."""
        if not self._paused and not self._over:
            self._signal(signal.SIGSTOP)
            self._paused = True

    def resume(self) -> None:
        """Let a paused run go on."""
        if self._paused:
            self._signal(signal.SIGCONT)
            self._paused = False

    def kill(self) -> None:
        """End the run and everything it started."""
        if not self._over:
            self._over = True
            self._signal(signal.SIGKILL)
            self._line.close()
            self._output.close()

    def output(self) -> str:
        """The end of what the program printed."""
        if self._output.closed:
            return ""
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - _OUTPUT_KEPT_BYTES))
        return self._output.read().decode(errors="replace")

    def _say(self, command: Command, limit_seconds: float, awaited: str) -> Any:
        self.resume()
        try:
            self._line.send(command)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has ended: waiting for the answer says how
        return self._await(limit_seconds, awaited, None)

    def _await(
        self, limit_seconds: float, awaited: str, while_waiting: Callable[[], None] | None
    ) -> Any:
        """The next report, while looking whether the process still lives."""
        ends = time.monotonic() + limit_seconds
        while not self._line.poll(0.05):
            if while_waiting is not None:
                while_waiting()
            status = self._zygote.exit_status(self.pid)
            if status is not None and not self._line.poll(0):
                self._fail(_cause_of(status, self.output()))
            if time.monotonic() > ends:
                reason = f"no sign of {awaited} within {limit_seconds:.0f} s"
                self._fail(Failure(kind="hung", reason=reason, output=self.output()))
        try:
            report = self._line.recv()
        except (EOFError, OSError):
            time.sleep(0.1)
            status = self._zygote.exit_status(self.pid)
            self._fail(_cause_of(0 if status is None else status, self.output()))
        if isinstance(report, Ended):
            self._fail(_ending(report, self.output()), report.window)
        if isinstance(report, Crashed):
            self._fail(
                Failure(
                    kind=report.kind, reason=report.message, output=self.output() + report.trace
                )
            )
        return report

    def _fail(self, failure: Failure, window: Window | None = None) -> None:
        self.kill()
        raise RunEnded(failure, window)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _ending(report: Ended, output: str) -> Failure:
    steps = f"{report.steps} training step{'s' * (report.steps != 1)}"
    reason = (
        f"the program came to its end after {steps}"
        if report.steps
        else "the program ended without training"
    )
    return Failure(kind="ended", reason=reason, output=output)


def _cause_of(status: int, output: str) -> Failure:
    if status == -signal.SIGKILL:
        reason = "the system killed the run, most likely because memory ran out"
        return Failure(kind="killed", reason=reason, output=output)
    if status < 0:
        name = signal.Signals(-status).name
        return Failure(kind="crashed", reason=f"the run was ended by {name}", output=output)
    return Failure(
        kind="crashed",
        reason=f"the run left with exit code {status} between two steps",
        output=output,
    )
