"""A warm process that forks one child for each run: torch is imported once, and no state crosses
runs.

It imports torch and builds one optimizer, but never runs a kernel and never touches a GPU: forking
after an OpenMP region deadlocks, and CUDA does not survive a fork. It serves one controller over a
socket; when that one is gone, it kills every run's process group and ends.
"""

import ctypes
import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.02


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
    """Import what every run needs. Importing `torch._dynamo` here saves each run 3 s at its first
    optimizer step.
    """
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx

    import autotune.measurement.child  # noqa: F401

    torch.optim.AdamW([torch.nn.Parameter(torch.empty(1))])


def serve(handle: int) -> None:
    """Fork runs for the controller at the other end of the socket `handle`, until it hangs up."""
    controller = Connection(handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    warm_up()
    controller.send("warm")
    children: set[int] = set()
    try:
        while True:
            if select.select([controller], [], [], _POLL_SECONDS if children else None)[0]:
                job = controller.recv()
                pid = _fork(controller, job)
                children.add(pid)
                controller.send(Forked(pid=pid))
            for pid in tuple(children):
                reaped, status = os.waitpid(pid, os.WNOHANG)
                if reaped:
                    children.discard(pid)
                    _kill_group(pid)  # what it left behind: loader workers
                    controller.send(Exited(pid=pid, status=os.waitstatus_to_exitcode(status)))
    except (EOFError, OSError):
        pass
    finally:
        for pid in children:
            _kill_group(pid)


def _fork(controller: Connection, job: Any) -> int:
    """Fork a child for `job`; its socket and its output file follow the job on the controller's
    socket.
    """
    talk, output = recv_handle(controller), recv_handle(controller)
    pid = os.fork()
    if pid == 0:
        try:
            controller.close()
            _become_a_run(output)
            from autotune.measurement.child import run

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


def _become_a_run(output: int) -> None:
    """Lead a process group of its own, die with the zygote, and print to the output file."""
    parent = os.getppid()
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(70)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    silence = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((silence, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(silence)
    os.close(output)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
