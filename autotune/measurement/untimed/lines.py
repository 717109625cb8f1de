"""The program's own functions that a step waits for, in a run that is not timed."""

from collections.abc import Sequence

from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.readings.telemetry import trains_on_gpu
from autotune.profiling.between import own_lines
from autotune.workload.found import INSIDE, Between, BusyLine
from autotune.workload.seen import Seen
from autotune.workload.window import BETWEEN, LINES, Window

# Of a step, for what may be Python inside a forward pass to be told from operations, for so long.
LEAST_INSIDE = 0.1
BETWEEN_SECONDS = 0.5
# The profiler keeps some 300 bytes of each operation, of which Python starts 1e5 a second.
LONGEST_STEP_SECONDS = 3.0


def busy_lines(
    run: ProcessRun, seen: Seen, windows: Sequence[Window], *, seconds: float
) -> tuple[BusyLine, ...]:
    """What is found in `seconds`; none where the program ends meanwhile. Of what a forward pass
    runs, what is no operation of torch's, where the host computes and nothing is compiled: compiled
    code is no operation either. `windows` are those of the program as it is.
    """
    try:
        found = run.watch(LINES, steps=1, seconds=seconds).found
    except RunEnded:
        return ()
    assert isinstance(found, tuple)
    known: tuple[BusyLine, ...] = found
    lines = tuple(line for line in known if line.phase != INSIDE)
    perhaps = sum(line.share for line in known if line.phase == INSIDE)
    compiled = any(model.compiled != "off" for model in seen.models)
    seconds_in_all, steps = (
        sum(each.seconds for each in windows),
        sum(each.steps for each in windows),
    )
    too_long = seconds_in_all > LONGEST_STEP_SECONDS * steps
    if perhaps < LEAST_INSIDE or trains_on_gpu(seen) or compiled or too_long:
        return lines
    try:
        between = run.watch(BETWEEN, steps=1, seconds=min(seconds, BETWEEN_SECONDS)).found
    except (RunEnded, NotPossible):
        return lines
    assert isinstance(between, Between)
    return (*lines, *own_lines(between))
