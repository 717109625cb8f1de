"""Runs are forked from a warm process: its controller's side of it."""

import functools
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from typing import Any

from autotune.errors import MeasurementError
from autotune.measurement.processes.jobs import Call
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.processes.terminal import terminal_size
from autotune.workload.program.framework import OURS

_WARM_UP_LIMIT_SECONDS, _CALL_LIMIT_SECONDS = 180.0, 60.0
_KILLED = (
    "Most likely it was killed: by the system, where memory ran out, or by somebody. Give the same "
    "command again: a search goes on from the trials that it has made."
)


class Zygote:
    """The warm process that runs are forked from, with more in its `environment` than this one has;
    once it is closed, every run is gone.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        root = str(Path(OURS).resolve().parent)
        start = (
            f"import sys; sys.path.append({root!r}); "
            "from autotune.measurement.processes.zygote import serve; "
            f"serve({theirs.fileno()}, {tuple(terminal_size() or ())})"
        )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open until the zygote is closed
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
        self._runs: list[ProcessRun] = []
        self._warm = False

    def close(self) -> None:
        """End the zygote and every run that is still alive."""
        self._line.close()
        if not self._warm:  # it is still importing, and has no run to end
            self._process.kill()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function(*arguments)` gives in a fresh process; it must be importable there.

        Raises:
            RunEnded: it raised, hung or died.
        """
        call = Call(function=function, arguments=arguments)
        run = self.start(call, limit_seconds=_CALL_LIMIT_SECONDS)
        try:
            return run.answer()
        finally:
            run.kill()

    def start(self, job: Any, *, limit_seconds: float) -> ProcessRun:
        """Fork a run of `job` (of `jobs`); its first step must be done within `limit_seconds`."""
        self.warm_up()
        self._runs = [run for run in self._runs if not run.await_end()]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the run's, which closes it
        # One that was killed cannot be told anything: waiting for its report says so.
        with suppress(ConnectionError), theirs:
            self._line.send(job)
            send_handle(self._line, theirs.fileno(), None)
            send_handle(self._line, output.fileno(), None)
        try:
            forked = self._next_report(_WARM_UP_LIMIT_SECONDS)
        except MeasurementError:
            ours.close()
            output.close()
            raise
        self._exits.pop(forked.pid, None)  # of an earlier run: the system counts from 1 again
        run = ProcessRun(
            forked.pid,
            functools.partial(self.exit_status, forked.pid),
            Connection(ours.detach()),
            output,
            limit_seconds,
        )
        self._runs.append(run)
        return run

    def exit_status(self, pid: int) -> int | None:
        """How the run `pid` exited; None while it lives."""
        while self._line.poll(0):
            self._take(self._receive())
        return self._exits.get(pid)

    def warm_up(self) -> None:
        """Wait until it has loaded torch.

        Raises:
            MeasurementError: that takes too long.
        """
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
                f"It said: {text[-1500:]}" if text else _KILLED,
            ) from None
