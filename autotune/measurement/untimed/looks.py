"""What a few steps of a run show that is not timed any more."""

from collections.abc import Sequence
from typing import TypeVar

from autotune.machine import CPU
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.readings.telemetry import trains_on_gpu
from autotune.profiling.between import own_lines
from autotune.workload.found import INSIDE, Again, Between, BusyLine, Denormals, Operations
from autotune.workload.seen import Seen
from autotune.workload.window import AGAIN, BETWEEN, DENORMALS, LINES, OPERATIONS, Window

# Longer steps are not computed again: several times, in formats that a CPU may have no units for.
LONGEST_COMPUTED_AGAIN = 1.0
# To count takes some 3 us for each operation, and the profiler keeps some 300 bytes of it; a step
# that is longer is not made of small ones alone, of which Python starts 1e5 a second.
LONGEST_COUNTED = 3.0
# Of a step, for what may be Python inside a forward pass to be told from operations, for so long.
LEAST_INSIDE = 0.1
BETWEEN_SECONDS = 0.5

Found = TypeVar("Found")


def looked_for(
    run: ProcessRun, mode: str, kind: type[Found], *, steps: int = 1, seconds: float = 0.0
) -> Found | None:
    """What is found out in so many steps of `mode`, and so many seconds; None where the program
    ends meanwhile, or it is not offered here.
    """
    try:
        found = run.watch(mode, steps=steps, seconds=seconds).found
    except (NotPossible, RunEnded):
        return None
    assert isinstance(found, kind), found
    return found


def computed_again(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Again | None:
    """What models give in another order or format; None where that cannot be seen, and of models
    that are compiled, or run under autocast by themselves. The run's weights are others then.
    `windows` are those of the program as it is, here and below.
    """
    too_long = _take_longer(windows, LONGEST_COMPUTED_AGAIN)
    if too_long or seen.is_compiled or seen.autocast or not seen.models:
        return None
    return looked_for(run, AGAIN, Again)


def can_be_counted(seen: Seen, windows: Sequence[Window]) -> bool:
    """Whether a look at each operation takes little time, and finds all of them: kernels of a
    program that is compiled are several each.
    """
    too_long = _take_longer(windows, LONGEST_COUNTED)
    return seen.device == CPU and not seen.is_compiled and not too_long


def operations(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Operations | None:
    """How many a step starts, on a CPU."""
    counts = can_be_counted(seen, windows)
    return looked_for(run, OPERATIONS, Operations, steps=2) if counts else None


def denormals(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Denormals | None:
    """Which numbers of a step are denormal, on a CPU; in a run's second look, what its averages
    will be by what became of them since the first.
    """
    return looked_for(run, DENORMALS, Denormals) if can_be_counted(seen, windows) else None


def busy_lines(
    run: ProcessRun, seen: Seen, windows: Sequence[Window], *, seconds: float
) -> tuple[BusyLine, ...]:
    """The program's own functions that a step waits for, as `seconds` show them. Of what a forward
    pass runs, what is no operation of torch's, where the host computes and nothing is compiled:
    compiled code is no operation either.
    """
    known: tuple[BusyLine, ...] = looked_for(run, LINES, tuple, seconds=seconds) or ()
    lines = tuple(line for line in known if line.phase != INSIDE)
    perhaps = sum(line.share for line in known if line.phase == INSIDE)
    unlike = trains_on_gpu(seen) or seen.is_compiled or _take_longer(windows, LONGEST_COUNTED)
    if perhaps < LEAST_INSIDE or unlike:
        return lines
    between = looked_for(run, BETWEEN, Between, seconds=min(seconds, BETWEEN_SECONDS))
    return lines if between is None else (*lines, *own_lines(between))


def _take_longer(windows: Sequence[Window], seconds: float) -> bool:
    """Whether steps are longer than that, in the mean."""
    steps = sum(each.steps for each in windows)
    return sum(each.seconds for each in windows) > seconds * steps
