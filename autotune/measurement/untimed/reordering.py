"""Whether the models give the same with channels last, in a run that is not timed any more."""

from collections.abc import Sequence

from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.untimed.operations import steps_are_long
from autotune.workload.found import Reordered
from autotune.workload.seen import Seen
from autotune.workload.window import REORDERED, Window


def reordered(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Reordered | None:
    """None where no model would be reordered, or it cannot be said; the run's weights are others
    then. A model is computed four times again. `windows` are those of the program as it is.
    """
    may_be = any(each.convolutions and each.channels_last is False for each in seen.models)
    compiled = any(each.compiled != "off" for each in seen.models)
    if not may_be or compiled or steps_are_long(windows):
        return None
    try:
        found = run.watch(REORDERED, steps=1).found
    except (NotPossible, RunEnded):
        return None
    assert found is None or isinstance(found, Reordered), found
    return found
