"""What threads gain that compute one step together: one of them beside all, in turns."""

from collections.abc import Sequence

from autotune.machine import CPU
from autotune.measurement.beside import Windows, in_turns, surely_faster, times_as_fast
from autotune.measurement.processes.process import ProcessRun
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, ONE_BLAS_THREAD, ONE_THREAD, REPLAY_DEVICE, Window

# Of a step, what is none of torch's computing: below, NumPy has no part in it worth looking for.
LEAST_OUTSIDE = 0.05
_COMPUTING = ("forward", "backward", "optimizer", "copy")


def one_thread(
    run: ProcessRun, seen: Seen, windows: Windows, *, seconds: float, cores: int
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
    compiled = any(model.compiled != "off" for model in seen.models)  # for so many threads
    if seen.device != CPU or seen.threads < 2 or compiled:
        return None
    taken = in_turns(run, ONE_THREAD, beside, windows, seconds=seconds, cores=cores)
    if any(each.threads != 1 for each in taken.get(ONE_THREAD, ())):  # set in the loop itself
        return None
    return times_as_fast(windows, taken)


def one_blas_thread(
    run: ProcessRun, seen: Seen, windows: Windows, *, seconds: float, cores: int
) -> float | None:
    """How many times as fast the program is with one thread for NumPy's linear algebra, 1 at the
    most where not each turn of it was faster than each without; None where that has no other or no
    part in its steps, or where it cannot be said. What workers compute is not in this process.

    Arguments are those of `one_thread`.
    """
    with_workers = seen.loader is not None and seen.loader.num_workers > 0
    if seen.device != CPU or seen.blas_threads < 2 or with_workers:
        return None
    if _share_outside(windows.get(AS_IS, ())) < LEAST_OUTSIDE:
        return None
    return surely_faster(
        windows, in_turns(run, ONE_BLAS_THREAD, AS_IS, windows, seconds=seconds, cores=cores)
    )


def _share_outside(windows: Sequence[Window]) -> float:
    """Of the wall, what is none of torch's computing."""
    seconds = sum(window.seconds for window in windows)
    computing = sum(window.phases.get(name, 0.0) for window in windows for name in _COMPUTING)
    return 1 - computing / seconds if seconds else 0.0
