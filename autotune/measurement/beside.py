"""One process, timed in two modes by turns: what a single thing costs it, or would gain."""

from collections.abc import MutableMapping, Sequence
from dataclasses import replace

from autotune.machine import CPU
from autotune.measurement.doubts import starved
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.statistics import rate, timed
from autotune.workload.found import Denormals
from autotune.workload.seen import Seen
from autotune.workload.window import (
    AS_IS,
    DENORMAL,
    NO_ANOMALY,
    ONE_BLAS_THREAD,
    ONE_THREAD,
    REPLAY_DEVICE,
    ZEROED,
    Window,
)

# In turns, since what threads cost one another differs from minute to minute; fewer where steps, or
# validations between them, are long, and none where all of them took longer than this.
TURNS, LONGEST_SECONDS = 4, 8.0
# Of a step, what is none of torch's computing: below, NumPy has no part in it worth looking for.
LEAST_OUTSIDE = 0.05
_COMPUTING = ("forward", "backward", "optimizer", "copy")
# A step with fewer of its optimizer's averages denormal takes less than a hundredth longer, where
# each takes 200 times as long as another: what turns show of that is chance. Chosen.
LEAST_COMING = 5e-5

Windows = MutableMapping[str, list[Window]]


def in_turns(
    run: ProcessRun, mode: str, beside: str, windows: Windows, *, seconds: float, cores: int
) -> dict[str, list[Window]]:
    """Windows of `mode` in turns with some of the one `beside`, by their modes, as `windows` of the
    program are; nothing where it has not had its `cores`, or has ended. It is timed for `seconds`.
    """
    known = windows.get(beside) or windows.get(AS_IS, [])
    steps = sum(window.steps for window in known)
    step_seconds = sum(window.seconds for window in known) / steps if steps else 0.0
    turns = _turns(known, step_seconds, seconds) if step_seconds else 0
    taken: dict[str, list[Window]] = {mode: [], beside: []} if turns else {}
    try:
        for turn in range(turns):
            for each in list(taken)[:: -1 if turn % 2 else 1]:
                run.window(0.0, mode=each)  # its first step finds cold caches
                taken[each].append(run.window(seconds / (2 * turns), mode=each))
    except RunEnded:
        return {}
    disturbed = any(starved(each, cores=cores) for of in taken.values() for each in of)
    return {} if disturbed else taken


def _turns(known: Sequence[Window], step_seconds: float, seconds: float) -> int:
    """How many there is time for, of `seconds` of training in all."""
    away = sum(each.validation_seconds for each in known) / sum(each.seconds for each in known)
    longest = max(4 * step_seconds, away * seconds / TURNS)
    return min(TURNS, int(LONGEST_SECONDS / longest))


def times_as_fast(windows: Windows, taken: dict[str, list[Window]]) -> float | None:
    """How many times as fast the first mode of `taken` is as the second; all are added to
    `windows`.
    """
    if not taken:
        return None
    for mode, found in taken.items():
        windows.setdefault(mode, []).extend(found)
    one, own = (rate([timed(window) for window in found]) for found in taken.values())
    return one / own if own else None


def surely_faster(
    run: ProcessRun, mode: str, beside: str, windows: Windows, *, seconds: float, cores: int
) -> float | None:
    """How many times as fast the program is in `mode` as in the one `beside`, 1 at the most where
    not each turn was faster than each of the other; None where it cannot be said. Arguments are
    those of `in_turns`.
    """
    taken = in_turns(run, mode, beside, windows, seconds=seconds, cores=cores)
    ratio = times_as_fast(windows, taken)
    if ratio is None:
        return None
    one, own = ([rate([timed(window)]) for window in found] for found in taken.values())
    return ratio if min(one) > max(own) else min(ratio, 1.0)


def one_thread(
    run: ProcessRun, seen: Seen, windows: Windows, seconds: float, cores: int
) -> float | None:
    """How many times as fast one thread computes a batch that is kept (without a loader: the loop
    as it is) as the program's; None where it has no other, or where it cannot be said. `seen` is
    what the program is made of, here and below; all else is as in `in_turns`.
    """
    beside = AS_IS if seen.loader is None else REPLAY_DEVICE
    if seen.device != CPU or seen.threads < 2 or seen.is_compiled:  # for so many threads
        return None
    taken = in_turns(run, ONE_THREAD, beside, windows, seconds=seconds, cores=cores)
    if any(each.threads != 1 for each in taken.get(ONE_THREAD, ())):  # set in the loop itself
        return None
    return times_as_fast(windows, taken)


def one_blas_thread(
    run: ProcessRun, seen: Seen, windows: Windows, seconds: float, cores: int
) -> float | None:
    """How many times as fast the program surely is with one thread for NumPy's linear algebra; None
    where that has no other or no part in its steps. What workers compute is not in this process.
    """
    with_workers = seen.loader is not None and seen.loader.num_workers > 0
    if seen.device != CPU or seen.blas_threads < 2 or with_workers:
        return None
    if _share_outside(windows.get(AS_IS, ())) < LEAST_OUTSIDE:
        return None
    return surely_faster(run, ONE_BLAS_THREAD, AS_IS, windows, seconds=seconds, cores=cores)


def _share_outside(windows: Sequence[Window]) -> float:
    """Of the wall, what is none of torch's computing."""
    seconds = sum(window.seconds for window in windows)
    computing = sum(window.phases.get(name, 0.0) for window in windows for name in _COMPUTING)
    return 1 - computing / seconds if seconds else 0.0


def without_anomaly(
    run: ProcessRun, seen: Seen, windows: Windows, seconds: float, cores: int
) -> float | None:
    """How many times as fast the program surely is without torch's anomaly detection; None where it
    has not turned it on.
    """
    if seen.places.anomaly is None:
        return None
    return surely_faster(run, NO_ANOMALY, AS_IS, windows, seconds=seconds, cores=cores)


def with_cost(
    found: Denormals | None, run: ProcessRun, windows: Windows, *, seconds: float, cores: int
) -> Denormals | None:
    """What was `found` in two looks at `run`, with how many times as long a step takes once its
    optimizer's averages have come to be denormal: the loop with them made so, in turns with the
    loop where they are zero.
    """
    if found is None or not found.coming:
        return found
    if found.coming < LEAST_COMING:
        return replace(found, times_as_long=1.0)
    cost = surely_faster(run, ZEROED, DENORMAL, windows, seconds=seconds, cores=cores)
    return replace(found, times_as_long=None if cost is None else max(1.0, cost))
