"""What threads gain that compute one step together: one of them beside all, in turns."""

from collections.abc import MutableMapping

from autotune.machine import CPU
from autotune.measurement.doubts import starved
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.statistics import rate, timed
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, ONE_THREAD, REPLAY_DEVICE, Window

# In turns, since what threads cost one another differs from minute to minute; fewer where steps are
# long, and none where all of them took longer than this.
TURNS, LONGEST_SECONDS = 4, 8.0


def one_thread(
    run: ProcessRun,
    seen: Seen,
    windows: MutableMapping[str, list[Window]],
    *,
    seconds: float,
    cores: int,
) -> float | None:
    """How many times as fast one thread computes a batch that is kept (without a loader: the loop
    as it is) as the program's; None where it has no other, where it cannot be said, or where the
    program ends meanwhile.

    Args:
        run: of the program; what it is at does not matter.
        seen: what it is made of.
        windows: of it by mode, which those are added to that are taken here.
        seconds: of timing.
        cores: cores that the run may use; where it did not get them nothing is said.
    """
    beside = AS_IS if seen.loader is None else REPLAY_DEVICE
    known = windows.get(beside, [])
    steps = sum(window.steps for window in known)
    compiled = any(model.compiled != "off" for model in seen.models)  # for so many threads
    if seen.device != CPU or seen.threads < 2 or compiled or not steps:
        return None
    step_seconds = sum(window.seconds for window in known) / steps
    turns = min(TURNS, int(LONGEST_SECONDS / (4 * step_seconds)))
    taken: dict[str, list[Window]] = {ONE_THREAD: [], beside: []}
    try:
        for turn in range(turns):
            for mode in list(taken)[:: -1 if turn % 2 else 1]:
                run.window(0.0, mode=mode)  # its first step finds cold caches
                taken[mode].append(run.window(seconds / (2 * turns), mode=mode))
    except RunEnded:
        return None
    if not turns or any(starved(each, cores=cores) for of in taken.values() for each in of):
        return None
    if any(each.threads != 1 for each in taken[ONE_THREAD]):  # the program sets them in its loop
        return None
    windows[ONE_THREAD] = taken[ONE_THREAD]
    known += taken[beside]
    one, own = (rate([timed(window) for window in of]) for of in taken.values())
    return one / own if own else None
