"""How many operations a step of a program on a CPU starts, in a run that is not timed."""

from collections.abc import Sequence

from autotune.machine import CPU
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.workload.found import Operations
from autotune.workload.seen import Seen
from autotune.workload.window import OPERATIONS, Window

# Counting takes some 3 us for each of them; a step that is longer is not made of small ones alone.
LONGEST_STEP_SECONDS = 3.0


def can_be_counted(seen: Seen, windows: Sequence[Window]) -> bool:
    """Whether a look at each operation takes little time, and finds all of them: kernels of a
    program that is compiled are several each. `windows` are those of the program as it is.
    """
    steps = sum(each.steps for each in windows)
    too_long = sum(each.seconds for each in windows) > LONGEST_STEP_SECONDS * steps
    compiled = any(model.compiled != "off" for model in seen.models)
    return seen.device == CPU and not compiled and not too_long


def operations(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Operations | None:
    """None where the program ends meanwhile, and where they cannot be counted. `windows` are those
    of the program as it is.
    """
    if not can_be_counted(seen, windows):
        return None
    try:
        found = run.watch(OPERATIONS, steps=2).found
    except (NotPossible, RunEnded):
        return None
    assert isinstance(found, Operations), found
    return found
