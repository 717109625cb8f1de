"""One process, timed in two modes by turns: what a single thing costs it."""

from collections.abc import MutableMapping, Sequence

from autotune.measurement.doubts import starved
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.statistics import rate, timed
from autotune.workload.window import AS_IS, Window

# In turns, since what threads cost one another differs from minute to minute; fewer where steps, or
# validations between them, are long, and none where all of them took longer than this.
TURNS, LONGEST_SECONDS = 4, 8.0

Windows = MutableMapping[str, list[Window]]


def in_turns(
    run: ProcessRun, mode: str, beside: str, windows: Windows, *, seconds: float, cores: int
) -> dict[str, list[Window]]:
    """Windows of `mode` in turns with some of `beside`, each by its mode; nothing where the
    processors were taken, or the program has ended.

    Args:
        run: of the program; what it is at does not matter.
        mode: in which it is timed.
        beside: what that is held to.
        windows: of the program by mode.
        seconds: of timing.
        cores: that it may use.
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


def surely_faster(windows: Windows, taken: dict[str, list[Window]]) -> float | None:
    """The same, 1 at the most where not each turn of the first was faster than each of the
    second.
    """
    ratio = times_as_fast(windows, taken)
    if ratio is None:
        return None
    one, own = ([rate([timed(window)]) for window in found] for found in taken.values())
    return ratio if min(one) > max(own) else min(ratio, 1.0)
