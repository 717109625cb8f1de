"""Inside a forked run: enter the sandbox, set the program up, run it, and say how it ended."""

import ast
import errno
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from autotune.knobs import setup_for
from autotune.measurement.measurement import OUR_FAULT
from autotune.measurement.processes import unimported
from autotune.measurement.processes.causes import kind_of, likely_cause
from autotune.measurement.processes.endings import left_with
from autotune.measurement.processes.jobs import Call, Job
from autotune.measurement.sandbox import Layer, enter
from autotune.workload.conversation import (
    Answer,
    Command,
    Conversation,
    Crashed,
    Fault,
    Halted,
    Report,
)
from autotune.workload.intercept import intercepted
from autotune.workload.program.framework import OURS
from autotune.workload.program.marks import Marking, Marks
from autotune.workload.program.script import run_script, seed_everything
from autotune.workload.system.blas import find_in_a_sandbox
from autotune.workload.system.heap import litter_memory

_WORKER_KILLED = "is killed by signal: Killed"  # a loader's worker, as torch says it
_WORKER_GONE = "exited unexpectedly"  # and where it finds that worker before its signal is handled
_IN_A_WORKER = "in DataLoader worker process"

# Where less is free, what went wrong is that nothing more could be written.
_FULL_BYTES = 1 << 20
_WORKER_LOST = "the system killed a loader's worker, most likely because memory ran out"
_NO_INPUT = "the program reads its standard input, which is empty in a run"

# What a slip in a hook raises; what torch's own functions raise by way of a hook is something else.
_SLIPS = (AttributeError, LookupError, NameError, ReferenceError, AssertionError)


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
    exit_code, live = 0, None
    try:
        if job.layer is not None:
            enter(job.layer)
            find_in_a_sandbox()
        if job.littered:
            litter_memory()
        seed_everything(job.seed)
        natively = bool(job.objects) and not job.injected
        setup = setup_for({} if natively else job.config)
        setup.nudge, setup.stream, setup.reseed = job.nudge, job.stream, job.reseed
        setup.reorder, setup.alike, setup.epoch_batches = job.reorder, job.alike, job.epoch_batches
        code, told = _marked(job, line)
        with intercepted(
            setup,
            told,
            training_loader=job.training_loader,
            passed_loops=job.passed_loops,
            phases=job.phases,
        ) as live:
            live.models.time_first.kinds = frozenset(job.time_first)
            unimported.leave_to_the_program()
            try:
                exit_code = _run_program(job, code)
            except Halted:
                os._exit(0)
            live.pace.end(exit_code)
    except _ControllerGone:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever ends it is reported
        crashed = _crashed((error.__cause__ if isinstance(error, Fault) else None) or error)
        if job.layer is not None and _is_full(job.layer, error):
            crashed = replace(crashed, kind="no_space")
        line.say(replace(crashed, steps=live.pace.steps if live else 0))
        exit_code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def _marked(job: Job, line: _Line) -> tuple[Mapping[str, ast.Module], Conversation]:
    """The code that is run for the texts of a program that is to be marked, and the conversation in
    which it is told what that did not come to.
    """
    if not job.program.marked:
        return {}, line
    marks = Marks(job.program.sources)
    return marks.code, Marking(line, marks)


def _run_program(job: Job, code: Mapping[str, ast.Module]) -> int:
    if job.objects:
        import cloudpickle

        call: Any = cloudpickle.loads(job.objects)
        call({} if job.injected else job.config)
        return 0
    try:
        run_script(job.program, code)
    except SystemExit as stop:
        if stop.code in (None, 0):
            return 0
        raise
    return 0


def _crashed(error: BaseException) -> Crashed:
    if isinstance(error, SystemExit):
        if isinstance(error.code, int):
            return Crashed(kind="crashed", message=left_with(error.code), trace="")
        said = str(error.code)  # Python prints no more
        return Crashed(kind="crashed", message=f"it left saying: {said}", trace=f"{said}\n")
    trace = _trace(error)
    message = _said(error)
    if isinstance(error, EOFError) and "reading a line" in message:
        message = f"{_NO_INPUT} ({message})"
    if _WORKER_KILLED in trace or _has_lost_workers(error):
        message = f"{_WORKER_LOST} ({message})"
        return Crashed(kind="killed", message=message, trace=trace)
    if _is_ours(error):
        return Crashed(kind="crashed", message=f"{OUR_FAULT}: {message}", trace=trace)
    kind = kind_of(error)
    cause = likely_cause(kind, message)
    return Crashed(kind=kind, message=f"{message}; {cause}" if cause else message, trace=trace)


def _has_lost_workers(error: BaseException) -> bool:
    """Whether a loader found workers gone that the system has killed: torch does not say by what,
    but the frame that raises knows which.
    """
    if _WORKER_GONE not in str(error) or error.__traceback__ is None:
        return False
    *_, (raising, _) = traceback.walk_tb(error.__traceback__)
    gone = raising.f_locals.get("failed_workers", ())
    return any(each.exitcode == -signal.SIGKILL for each in gone)


def _said(error: BaseException) -> str:
    """The first line of what `error` says, with its type; the next as well where that ends in ":",
    and the line of code of one that says nothing, as a bare `assert` does.

    Messages of torch go on for many lines, and end in advice.
    """
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    # A SyntaxError begins with the place, an error of a loader's worker with its traceback.
    if isinstance(error, SyntaxError) or _IN_A_WORKER in lines[0]:
        return lines[-1]
    if not str(error):
        passed = traceback.extract_tb(error.__traceback__)
        return f"{lines[0]}: {passed[-1].line}" if passed and passed[-1].line else lines[0]
    if lines[0].endswith(":") and len(lines) > 1:
        return f"{lines[0]} {lines[1].strip()}"
    return lines[0]


def _is_full(layer: Layer, error: BaseException) -> bool:
    """Whether there is no room left for what the run writes, or was none: an overlay may want room
    for a whole file, and then leave it.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    store = layer.root / "store"  # may be in memory
    return shutil.disk_usage(store if store.is_dir() else layer.root).free < _FULL_BYTES


def _is_ours(error: BaseException) -> bool:
    """Whether a hook of ours has failed, and nothing that it called for the program."""
    passed = traceback.extract_tb(error.__traceback__)
    ours = bool(passed) and passed[-1].filename.startswith(OURS)
    return ours and isinstance(error, _SLIPS)


def _trace(error: BaseException) -> str:
    """The traceback, without our own frames where the program's are among them."""
    told = traceback.TracebackException.from_exception(error)
    waiting: list[traceback.TracebackException | None] = [told]
    while waiting:
        if (each := waiting.pop()) is not None:
            each.stack[:] = [
                at for at in each.stack if not at.filename.startswith(OURS)
            ] or each.stack
            waiting += [each.__cause__, each.__context__]
    return "".join(told.format())
