"""Which numbers of a program on a CPU are denormal, in steps that are not timed, and what they cost
it once its optimizer's averages have come to them: the loop with those averages made so, in turns
with the loop where they are zero.
"""

from collections.abc import Sequence
from dataclasses import replace

from autotune.measurement.beside import Windows, in_turns, surely_faster
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.untimed.operations import can_be_counted
from autotune.workload.found import Denormals
from autotune.workload.seen import Seen
from autotune.workload.window import DENORMAL, DENORMALS, ZEROED, Window

# A step with fewer of its optimizer's averages denormal takes less than a hundredth longer, where
# each takes 200 times as long as another: what turns show of that is chance. Chosen.
LEAST_COMING = 5e-5


def look_for_denormals(run: ProcessRun, seen: Seen, windows: Sequence[Window]) -> Denormals | None:
    """What there are; in a run's second look, what its averages will be by what became of them
    since the first. None where the program ends meanwhile, and where its operations are not counted
    either. `windows` are those of the program as it is, so far.
    """
    if not can_be_counted(seen, windows):
        return None
    try:
        found = run.watch(DENORMALS, steps=1).found
    except (NotPossible, RunEnded):
        return None
    assert isinstance(found, Denormals), found
    return found


def with_cost(
    found: Denormals | None, run: ProcessRun, windows: Windows, *, seconds: float, cores: int
) -> Denormals | None:
    """What was `found` in two looks at `run`, with how many times as long a step takes with what
    will be denormal; the other arguments are those of `one_thread`.
    """
    if found is None or not found.coming:
        return found
    if found.coming < LEAST_COMING:
        return replace(found, times_as_long=1.0)
    taken = in_turns(run, ZEROED, DENORMAL, windows, seconds=seconds, cores=cores)
    cost = surely_faster(windows, taken)
    return replace(found, times_as_long=None if cost is None else max(1.0, cost))
