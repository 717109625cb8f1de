"""Inside a forked run: enter the sandbox, set the program up, run it, and say how it ended."""

import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import torch

from autotune.knobs import setup_for
from autotune.measurement.jobs import Call, Job
from autotune.measurement.sandbox import enter
from autotune.workload.conversation import Answer, Command, Crashed, Halted, Report
from autotune.workload.intercept import intercepted
from autotune.workload.script import run_script, seed_everything

# Messages of a process that could get no more memory; torch raises RuntimeError for the CPU
# allocator.
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "Cannot allocate memory")


class _ControllerGone(BaseException):
    """Nobody listens any more; not to be mistaken for a broken pipe of the program's own."""


class _Line:
    """The conversation with the controller over a socket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, report: Report) -> None:
        try:
            self._connection.send(report)
        except OSError:
            raise _ControllerGone from None

    def ask(self) -> Command:
        try:
            command: Command = self._connection.recv()
        except (EOFError, OSError):
            raise _ControllerGone from None
        return command


def run(job: Job | Call, connection: Connection) -> NoReturn:
    """Do what was asked and leave."""
    line = _Line(connection)
    if isinstance(job, Job):
        _run_job(job, line)
    try:
        line.say(Answer(value=job.function(*job.arguments)))
    except BaseException as error:  # noqa: BLE001 - whatever ends it is reported
        line.say(_crashed(error))
    os._exit(0)


def _run_job(job: Job, line: _Line) -> NoReturn:
    """Run `job` to its end and leave at once: nothing that the program does on its way out is of
    interest.

    A program's `finally`, `atexit` and threads could still write files or hang, so the process ends
    hard.
    """
    exit_code = 0
    try:
        if job.layer is not None:
            enter(job.layer)
        seed_everything(job.seed)
        setup = setup_for({} if job.objects else job.config)
        with intercepted(setup, line, training_loader=job.training_loader) as live:
            try:
                exit_code = _run_program(job)
            except Halted:
                os._exit(0)
            live.pace.end(exit_code)
    except _ControllerGone:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever ends it is reported
        line.say(_crashed(error))
        exit_code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def _run_program(job: Job) -> int:
    if job.objects:
        import cloudpickle

        call: Any = cloudpickle.loads(job.objects)
        call(job.config)
        return 0
    try:
        run_script(job.program)
    except SystemExit as stop:
        if stop.code in (None, 0):
            return 0
        raise
    return 0


def _crashed(error: BaseException) -> Crashed:
    trace = "".join(traceback.format_exception(error))
    message = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in _OUT_OF_MEMORY)
    )
    return Crashed(kind="out_of_memory" if memory else "crashed", message=message, trace=trace)
