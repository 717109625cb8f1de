"""Live runs as the controller sees them: they can be timed, paused and killed."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import IO, Any, TypeVar

from autotune.measurement.measurement import Failure
from autotune.measurement.processes.endings import cause_of, ending_of, why_late, why_stuck
from autotune.workload.conversation import (
    Answer,
    Command,
    Crashed,
    Draw,
    Ended,
    Ready,
    RunWindow,
    Survey,
    Tell,
    Unsupported,
    Watched,
)
from autotune.workload.samples.delivery import Delivery
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Sizes, Window

_OUTPUT_KEPT_BYTES = 4000
_REAPED_WITHIN_SECONDS = 2.0

# So many steps of a window may each take as long as one may at all.
SLOW_STEPS = 2
# Steps that are looked into take longer: a profiler notes every call, and writes a file.
WATCHED_STEPS_TAKE_AT_MOST = 10.0
# What a run is made of, however short its steps have to be.
TELLING_SECONDS = 10.0

_GONE_WITHIN_SECONDS = 10.0

Reported = TypeVar("Reported")


class RunEnded(Exception):  # an ending is not always an error
    """A live run is over: by itself (`failure.kind` "ended", with its last `window`), or by a
    failure, after so many `steps` where it said how many. `loop_seconds` is how long its training
    loop took, where another has followed it.
    """

    def __init__(
        self,
        failure: Failure,
        window: Window | None = None,
        loop_seconds: float | None = None,
        steps: int = 0,
    ) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.window = window
        self.loop_seconds = loop_seconds
        self.steps = steps


class NotPossible(Exception):
    """This program cannot be run in the mode that was asked for; the run goes on."""


class ProcessRun:
    """A live run in a process of its own, which leads a group, and of which `exit_status` says how
    it exited, None while it lives. Its start, and then any one step, may take `limit_seconds`. Not
    safe for use from several threads.
    """

    def __init__(
        self,
        pid: int,
        exit_status: Callable[[], int | None],
        line: Connection,
        output: IO[bytes],
        limit_seconds: float,
    ) -> None:
        self.pid = pid
        self._exit_status = exit_status
        self._line = line
        self._output = output
        self._startup_limit_seconds = limit_seconds
        self._ready = False
        self._paused = False
        self._over = False
        self._end: RunEnded | None = None
        # How long any one step may take before the run counts as hung.
        self.step_limit_seconds = limit_seconds
        self.startup_seconds = 0.0
        # What most likely keeps it from its first step, should that not come.
        self.slow_because = ""
        self.first_steps, self.first_seconds = 0, 0.0

    def await_first_step(self, waited: Callable[[float], None] | None = None) -> None:
        """Wait until the first optimizer step is done; `waited` is told for how many seconds so
        far.

        Raises:
            RunEnded: the program ended before it, crashed, or took longer than its limit.
        """
        if self._ready:
            return
        report = self._await(self._startup_limit_seconds, "its first training step", waited)
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
        limit = seconds + min(steps + 1, SLOW_STEPS) * self.step_limit_seconds
        command = RunWindow(seconds=seconds, steps=steps, mode=mode)
        return self._ask(command, Window, limit, "its next step")

    def watch(self, mode: str, *, steps: int, seconds: float = 0.0) -> Watched:
        """What is found out in `steps` steps of `mode`, and so many seconds, that are not timed;
        raises what `window` does, `NotPossible` where this torch or this device does not offer it.
        """
        limit = seconds + WATCHED_STEPS_TAKE_AT_MOST * (steps + 1) * self.step_limit_seconds
        command = RunWindow(seconds=seconds, steps=steps, mode=mode)
        return self._ask(command, Watched, limit, "what was looked for")

    def draw(self, command: Draw) -> Delivery:
        """What the training loader delivers, drawn beside the training; raises what `window` does,
        `NotPossible` where the program has no loader, or reading from it failed.
        """
        limit = command.seconds + self.step_limit_seconds
        return self._ask(command, Delivery, limit, "a batch")

    def survey(self, seconds: float) -> Sizes:
        """What the batches of an epoch are like, as far as `seconds` reach; raises what `draw`
        does.
        """
        limit = seconds + self.step_limit_seconds
        return self._ask(Survey(seconds=seconds), Sizes, limit, "a batch")

    def limit(self, seconds: float) -> None:
        """Its start, and then any one step, may take no longer than `seconds`."""
        self._startup_limit_seconds = min(self._startup_limit_seconds, seconds)
        self.step_limit_seconds = min(self.step_limit_seconds, seconds)

    def seen(self) -> Seen:
        """See `workload.window.LiveRun`."""
        self.await_first_step()
        patience = max(TELLING_SECONDS, self.step_limit_seconds)  # it is no step
        report = self._say(Tell(), patience, "an answer")
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

    def await_end(self) -> bool:
        """Whether it is over, and was killed if it is: then nothing of it is left, and it holds no
        port and no memory of a GPU any more, which the system takes a while for after the signal.
        Whoever cannot be killed, in a call of a driver's, is given up.
        """
        if not self._over:
            return False
        ends = time.monotonic() + _GONE_WITHIN_SECONDS
        with suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < ends:
                os.killpg(self.pid, 0)
                time.sleep(0.005)
        return True

    def output(self) -> str:
        """The end of what the program printed."""
        if self._output.closed:
            return ""
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - _OUTPUT_KEPT_BYTES))
        return self._output.read().decode(errors="replace")

    def _ask(
        self, command: Command, kind: type[Reported], limit_seconds: float, awaited: str
    ) -> Reported:
        """What the program answers to what it may not be able to."""
        self.await_first_step()
        report = self._say(command, limit_seconds, awaited)
        if isinstance(report, Unsupported):
            raise NotPossible(report.reason)
        assert isinstance(report, kind), report
        return report

    def _say(self, command: Command, limit_seconds: float, awaited: str) -> Any:
        self.resume()
        # A run that has ended cannot be told anything: waiting for its answer says how it ended.
        with suppress(OSError):
            self._line.send(command)
        return self._await(limit_seconds, awaited, None)

    def _await(
        self, limit_seconds: float, awaited: str, waited: Callable[[float], None] | None
    ) -> Any:
        """The next report, while looking whether the process still lives."""
        if self._end is not None:
            raise self._end
        began = time.monotonic()
        while not self._line.poll(0.05):
            spent = time.monotonic() - began
            if waited is not None:
                waited(spent)
            status = self._exit_status()
            if status is not None and not self._line.poll(0):
                self._fail(cause_of(status, self.output()))
            if spent > limit_seconds:
                late = (self.pid, self.slow_because, self.output())
                because = why_stuck(self.pid) if self._ready else why_late(*late)
                reason = f"no sign of {awaited} within {limit_seconds:.0f} s{because}"
                self._fail(Failure(kind="hung", reason=reason, output=self.output()))
        try:
            report = self._line.recv()
        except (EOFError, OSError):
            self._fail(cause_of(self._last_status(), self.output()))
        if isinstance(report, Ended):
            self._fail(ending_of(report, self.output()), report.window, report.loop_seconds)
        if isinstance(report, Crashed):
            self._fail(
                Failure(
                    kind=report.kind, reason=report.message, output=self.output() + report.trace
                ),
                steps=report.steps,
            )
        return report

    def _last_status(self) -> int:
        """How the process exited; it has hung up already, and is about to be reaped."""
        ends = time.monotonic() + _REAPED_WITHIN_SECONDS
        while (status := self._exit_status()) is None and time.monotonic() < ends:
            time.sleep(0.01)
        return status or 0

    def _fail(self, *end: Any, **more: Any) -> None:
        self.kill()
        self._end = RunEnded(*end, **more)
        raise self._end

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
