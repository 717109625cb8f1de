"""What models give in another order or format, in a run that is not timed any more."""

from collections.abc import Sequence

from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.workload.found import Again
from autotune.workload.seen import Seen
from autotune.workload.window import AGAIN, Window

# Longer steps are not computed again: several times, in formats that a CPU may have no units for.
LONGEST_STEP_SECONDS = 1.0


def computed_again(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Again | None:
    """None where that cannot be seen, and of models that are compiled, or run under autocast by
    themselves; the run's weights are others then. `windows` are those of the program as it is.
    """
    steps = sum(each.steps for each in windows)
    too_long = sum(each.seconds for each in windows) > LONGEST_STEP_SECONDS * steps
    compiled = any(each.compiled != "off" for each in seen.models)
    if too_long or compiled or seen.autocast or not seen.models:
        return None
    try:
        found = run.watch(AGAIN, steps=1).found
    except (NotPossible, RunEnded):
        return None
    assert isinstance(found, Again), found
    return found
