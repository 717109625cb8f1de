"""Open files that a training keeps: each tensor that a worker has sent holds one for as long as
anything of it lives (torch's sharing strategy "file_descriptor").
"""

import math
import os
import resource
from contextlib import suppress
from statistics import linear_regression

from autotune.measurement.processes.process import ProcessRun

# One look after each of so many steps: what is under way in queues goes up and down by several, so
# the count's slope tells, from half a tensor a step on. Chosen, not measured.
STEPS, FEWEST_KEPT = 12, 0.5
# An epoch in which no step could keep so many tensors is not looked at.
MOST_TENSORS = 16


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
