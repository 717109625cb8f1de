"""What launching its kernels takes the host, which a program on a GPU can go no faster than."""

from autotune.profiling.profile import Profile
from autotune.profiling.trace import COPY, DATA, LAUNCH, SYNC

# How many times as long the profiler makes launching: 1.56, 1.64 and 1.81 for three programs that
# waited for launches with and without it (H200s; `planted-tiny_kernels`, `planted-item_costly` and
# `rivals-resnet18-ours` in reports/h200).
TRACED_TIMES = 1.67
# A device that waits less for launches, under the profiler, says nothing of what they take.
LATE = 0.05


def launching_seconds(profile: Profile) -> float | None:
    """About what the host takes to launch a step's kernels, in seconds; None where no trace says.

    A step that is held up by its launches under the profiler need not be without it: the device
    may be slower still, until its work is made faster.
    """
    trace = profile.gpu.trace if profile.gpu else None
    if trace is None or not trace.steps or trace.idle.get(LAUNCH, 0.0) < LATE:
        return None
    waiting = sum(trace.idle.get(cause, 0.0) for cause in (DATA, COPY, SYNC))
    seconds = (1.0 - waiting) * trace.seconds / trace.steps / TRACED_TIMES
    return min(seconds, profile.step_seconds)
