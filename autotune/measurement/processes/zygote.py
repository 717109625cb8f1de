"""A warm process that forks one child for each run: torch is imported once, and no state crosses
runs.

It imports torch, but never runs a kernel and never touches a GPU: forking after an OpenMP region
deadlocks, and CUDA does not survive a fork. It serves one controller over a
socket; when that one is gone, it kills every run with all that it started and ends.

Whatever a run leaves behind, daemons and sessions of their own among it, is adopted by this process
and killed as soon as no run is alive.
"""

import ctypes
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from typing import Any, NoReturn

import psutil

from autotune.measurement.processes import unimported
from autotune.measurement.processes.terminal import open_input
from autotune.nvml import describe_gpu

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_SECONDS = 0.02
_LAST_SECONDS = 1.0  # for what is killed to be gone
_SHARED = Path("/dev/shm")  # noqa: S108 - where torch makes its files
_ENDED_FIRST = 500  # of 1000: as if it held half of the memory beside what it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """Report: a child has been forked, and leads its own process group."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """Report: a child is gone; `status` is as `os.waitstatus_to_exitcode` gives it (negative: a
    signal).
    """

    pid: int
    status: int


def warm_up() -> None:
    """Import what every run needs. Importing `torch._dynamo` here saves each run 1 to 3 s at its
    first optimizer, where torch would import it; see `unimported`. Inductor, which only some need,
    would make the heap of all others a quarter larger: what a program's own `gc.collect()` takes
    goes by that.
    """
    import torch

    with _cuda_unasked(torch.cuda):
        unimported.import_ahead("torch._dynamo")

        import autotune.measurement.processes.child  # noqa: F401


@contextmanager
def _cuda_unasked(cuda: Any) -> Iterator[None]:
    """Within, NVML says whether there is a GPU. Parts of torch want to know where they are imported
    (inductor of torch 2.11), and torch's own answer sets CUDA up: no child of this process could
    use it then.
    """
    own = cuda.is_available
    cuda.is_available = lambda: bool(cuda._is_compiled()) and describe_gpu() is not None
    try:
        yield
    finally:
        cuda.is_available = own


def serve(handle: int, terminal: tuple[int, ...] = ()) -> NoReturn:
    """Fork runs for the controller at the other end of the socket `handle`, until it hangs up.

    `terminal` is the size of the terminal that they find, empty for none.
    """
    controller = Connection(handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # while it imports, it hears nobody hang up
        warm_up()
        _prctl(_PR_SET_PDEATHSIG, 0)
        controller.send("warm")
        _fork_on_request(controller, os.terminal_size(terminal) if terminal else None)
    except (EOFError, ConnectionError):
        pass
    except BaseException:  # noqa: BLE001 - it must end below, not in the interpreter's own way
        traceback.print_exc()
    finally:
        for process in _kill_descendants():
            with suppress(psutil.Error):
                process.wait(_LAST_SECONDS)
            _unlink_shared(process.pid)
        sys.stderr.flush()
        os._exit(0)  # taking torch down in an orderly way takes up to seconds


def _fork_on_request(controller: Connection, terminal: os.terminal_size | None) -> NoReturn:
    runs: set[int] = set()
    while True:
        if select.select([controller], [], [], _POLL_SECONDS)[0]:
            job = controller.recv()
            pid = _fork(controller, job, terminal)
            runs.add(pid)
            controller.send(Forked(pid=pid))
        for pid, status in _reaped():
            _unlink_shared(pid)
            if pid not in runs:
                continue  # adopted
            runs.discard(pid)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # what it left behind: loader workers
            if not runs:
                _kill_descendants()
            controller.send(Exited(pid=pid, status=status))


def _reaped() -> Iterator[tuple[int, int]]:
    """The children that have ended, and how."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            yield pid, os.waitstatus_to_exitcode(status)


def _unlink_shared(pid: int) -> None:
    """Take away what a process that was killed has left in shared memory: a loader's worker makes a
    file for each tensor that it sends, and unlinks it once that is open.
    """
    for file in _SHARED.glob(f"torch_{pid}_*"):
        with suppress(OSError):
            file.unlink()


def _fork(controller: Connection, job: Any, terminal: os.terminal_size | None) -> int:
    """Fork a child for `job`; its socket and its output file follow the job on the controller's
    socket.
    """
    talk, output = recv_handle(controller), recv_handle(controller)
    pid = os.fork()
    if pid == 0:
        try:
            controller.close()
            _become_a_run(output, terminal)
            from autotune.measurement.processes.child import run

            run(job, Connection(talk))
        except BaseException:  # noqa: BLE001 - the child must never return into the zygote's loop
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(70)
    os.close(talk)
    os.close(output)
    return pid


def _become_a_run(output: int, terminal: os.terminal_size | None) -> None:
    """Lead a process group of its own, die with the zygote, and print to the output file."""
    parent = os.getppid()
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(70)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Where memory runs out, the kernel is to choose the run, which can be spared.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_ENDED_FIRST))
    silence = open_input(terminal)
    for source, target in ((silence, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(silence)
    os.close(output)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(
            line_buffering=True
        )  # as at a terminal: of a killed run, all is there


def _kill_descendants() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)
