"""What a dataset holds that processes cannot share, and what becomes of that in workers; and open
files that a training keeps: each tensor that a worker has sent holds one for as long as anything of
it lives (torch's sharing strategy "file_descriptor").
"""

import math
import os
import resource
from collections.abc import Sequence
from contextlib import suppress
from statistics import linear_regression

from autotune.measurement.processes.process import ProcessRun
from autotune.workload.samples.delivery import (
    CONNECTION,
    INITIAL_SEED,
    NUM_THREADS,
    PIPES,
    THREADS,
    Delivery,
    Holding,
    say,
)

# One look after each of so many steps: what is under way in queues goes up and down by several, so
# the count's slope tells, from half a tensor a step on. Chosen, not measured.
STEPS, FEWEST_KEPT = 12, 0.5
# An epoch in which no step could keep so many tensors is not looked at.
MOST_TENSORS = 16
_TORN = (
    "batches may be torn: the same memory is filled anew for each (give out a copy of it), and a "
    "worker may fill it while the batch before is on its way, or trained on"
)


def not_for_workers(own: Delivery, again: Delivery) -> str:
    """Why what the loader gave without workers, as the program has it, is not for workers to make,
    though they seem to make the same. Where it gives the same `again`, its samples are no stream of
    random numbers that each worker may have begin elsewhere.
    """
    # As many as there was time for, each time.
    alike = all(one == other for one, other in zip(own.batches, again.batches, strict=False))
    if INITIAL_SEED in own.asked and alike:
        return (
            f"samples may be others: making them asks for `torch.{INITIAL_SEED}()` "
            f"({own.asked[INITIAL_SEED]}), the same number in all of a run without workers, and "
            "another in each worker and epoch"
        )
    if NUM_THREADS in own.asked:
        return (
            f"samples may be others: making them asks for `torch.{NUM_THREADS}()` "
            f"({own.asked[NUM_THREADS]}), which is 1 in each worker"
        )
    return _TORN if own.overwritten else ""


def unshareable(given: Delivery, workers: int) -> str:
    """Why processes would get in each other's way, even where they did not yet."""
    connections = [each for each in given.holdings if each.kind in (CONNECTION, PIPES)]
    if workers and connections:
        return f"processes would share {say(connections)}: each is to open its own"
    threads = [each for each in given.holdings if each.kind == THREADS]
    if workers and threads:
        return (
            f"{say(threads)} would stay behind in the program's own process, and what a worker "
            "gives them to do may never be done: each is to start its own"
        )
    if given.moved:
        return (
            f"processes share one open file (`{given.moved[0]}`), and each moves where the others "
            "read on: each is to open its own"
        )
    return ""


def likely(holdings: Sequence[Holding], workers: int, reason: str) -> str:
    """The likely cause of a failure: what the dataset holds that processes cannot share."""
    others = [each for each in holdings if f"`{each.path}`" not in reason]
    return f" (the dataset holds {say(others)})" if workers and others else ""


def why_files_run_out(run: ProcessRun, length: int | None) -> str:
    """Why a training with workers comes to have more files open than it may within an epoch of
    `length` batches, None for one without end: it keeps tensors of theirs. "" where it does not.

    Raises:
        RunEnded: the program ended, crashed, hung or was killed in these steps.
    """
    batches, most = math.inf if length is None else length, _allowed(run.pid)
    if MOST_TENSORS * batches <= most:
        return ""
    counts = [_open(run.pid)]
    for _ in range(STEPS):
        run.window(0.0)
        counts.append(_open(run.pid))
    kept = linear_regression(range(len(counts)), counts).slope
    if kept < FEWEST_KEPT or counts[0] + kept * batches <= most:
        return ""
    return (
        f"each step leaves some {max(1.0, kept):.0f} more files open, as where the training keeps "
        "tensors of its batches, each of which holds one while it lives, and no more than "
        f"{most:.0f} may be (`ulimit -n`): keep copies (`y.clone()`), which hold none"
    )


def _open(process: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{process}/fd"))
    return 0


def _allowed(process: int) -> float:
    """How many files a process may have open; for ever many where nobody says."""
    with suppress(OSError, AttributeError):  # prlimit is Linux's
        most, _ = resource.prlimit(process, resource.RLIMIT_NOFILE)
        return math.inf if most == resource.RLIM_INFINITY else most
    return math.inf
