"""What a run takes at most: of main memory with the processes that it has started, the workers of
its loader; of a GPU with all that torch's allocator keeps.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import psutil

from autotune.measurement.readings.bursts import fetched_ahead
from autotune.measurement.readings.telemetry import trains_on_gpu
from autotune.workload.seen import Seen
from autotune.workload.system.processor import read_text
from autotune.workload.window import Window

# What a process has of a GPU beside its allocator: the context, and kernels that are loaded. Some
# hundred MiB, by the GPU and what a program calls; chosen, not measured.
CONTEXT_BYTES = 512 << 20
_EXACTLY = 1 + 1e-9  # but for rounding


def beside_bytes(pid: int, seen: Seen) -> int | None:
    """What the processes that `pid` has started need at most beside it, None where the system does
    not say; of a run on a GPU, whose memory is what counts, 0.

    Of each: what it has for itself now, and what it had more at its peak. What it shares is left
    out (a dataset from before the fork, libraries): the training process has that too. And batches
    that lie ready in shared memory. They are added up as if all had most at the same moment.
    """
    if trains_on_gpu(seen):
        return 0
    try:
        started = psutil.Process(pid).children(recursive=True)
        needed = [_own_bytes(each) for each in started]
    except psutil.Error:
        return None
    if seen.loader is not None and seen.loader.num_workers and not started:
        return None  # it is between two epochs
    return sum(needed) + fetched_ahead(seen) * seen.batch_bytes


def most(readings: Iterable[int | None]) -> int | None:
    """The most bytes of those moments at which they were known; None where they never were."""
    return max((each for each in readings if each is not None), default=None)


def device_peak(windows: Sequence[Window]) -> int | None:
    """The most that a run took of its GPU; None where its allocator does not say.

    That is more than was allocated: blocks that lie free, and the pool of a CUDA graph, which is
    kept while all else is allocated beside it, and counts as free once it is recorded.
    """
    kept = most(each.allocator.reserved_peak_bytes for each in windows if each.allocator)
    return None if kept is None else kept + CONTEXT_BYTES


def left_out(
    runs: Iterable[Sequence[Window]],
    own: Sequence[Sequence[Window]],
    seen: Seen,
    *,
    larger: float = 1.0,
) -> int:
    """How often a GPU had no memory for a batch of `runs`, after which the program went on without
    it: between the end of each run's first window and the end of its last.

    Torch itself can do without what it gets no memory for: cuDNN takes less workspace, and trains
    on the batch all the same. So a lack counts only in windows whose steps drew more than steps
    usually do, as the windows of the program's `own` runs without any lack tell, where batches of
    `runs` are `larger` by that factor. Where batches differ in size by themselves, each counts.
    """
    fixed = seen.loader is not None and seen.loader.batch_size is not None
    calm = [after for run in own for lacks, after in _lacks(run) if not lacks]
    usual = max((each.samples / drawn for each in calm if (drawn := _drawn(each))), default=0.0)
    return sum(
        lacks
        for run in runs
        for lacks, after in _lacks(run)
        if not (fixed and calm) or after.samples > larger * usual * _drawn(after) * _EXACTLY
    )


def _drawn(window: Window) -> int:
    """Steps that were drawn for: a GradScaler of the program's own leaves some of them out."""
    return window.steps + window.skipped_steps


def ran_out(windows: Sequence[Window]) -> int:
    """How often a GPU had no memory to give between the end of the first of `windows`, all of one
    run, and the end of the last: to torch itself too.
    """
    return sum(lacks for lacks, _ in _lacks(windows))


def _lacks(windows: Sequence[Window]) -> list[tuple[int, Window]]:
    """Each of a run's windows but the first, and how often there was no memory since the last."""
    known = [
        (each.allocator.out_of_memories, each)
        for each in windows
        if each.allocator and each.allocator.out_of_memories is not None
    ]
    return [(now - before, after) for (before, _), (now, after) in pairwise(known)]


def whole_peak(seen: Seen, windows: Sequence[Window], beside: Sequence[int | None]) -> int | None:
    """Peak memory of a run by its windows, and what was needed beside it at several moments; None
    where either is unknown. On a GPU it is the most that was taken of that.
    """
    if trains_on_gpu(seen):
        return device_peak(windows)
    own, others = most(window.peak_bytes for window in windows), most(beside)
    return None if own is None or others is None else own + others


def _own_bytes(process: psutil.Process) -> int:
    """What a process has and shares with none (its unique set size), now or at its peak.

    Raises:
        psutil.AccessDenied: that is kept from us.
    """
    try:
        own = process.memory_full_info().uss
    except psutil.NoSuchProcess:  # it has ended
        return 0
    fields = dict(
        line.split(":", 1) for line in read_text(f"/proc/{process.pid}/status").splitlines()
    )
    peak, now = (int(fields.get(name, "0").split()[0]) for name in ("VmHWM", "VmRSS"))
    return int(own) + max(0, peak - now) * 1024
