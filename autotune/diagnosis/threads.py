"""Threads that take the cores from one another: more than there are, or of several libraries."""

from autotune.diagnosis.finding import Bottleneck, Finding, severity, times
from autotune.machine import CPU
from autotune.profiling.profile import Profile
from autotune.workload.window import ONE_BLAS_THREAD, ONE_THREAD

# Of a step, what is over once NumPy's linear algebra has one thread; timed in turns, but in windows
# of a fraction of a second.
_WARNING, _CRITICAL = 0.10, 0.20
# What one thread must be faster by to be said so: windows of a fraction of a second scatter.
CLEARLY_FASTER = 1.15


def waiting_share(profile: Profile) -> float:
    """Of a step, or of computing, what one thread does away with; 0 where that was not timed."""
    return max(_spinning_share(profile), _crowded_share(profile))


def threads_in_the_way(profile: Profile) -> Finding | None:
    """Too many of them, where one was timed to be faster."""
    return too_many_threads(profile) or _threads_of_numpy(profile)


def one_thread(profile: Profile) -> str:
    """That threads wait for one another more than they help, where that was timed."""
    faster = _one_is_faster(profile)
    return f" One thread computes it {times(faster)} as fast." if faster else ""


def crowd(profile: Profile) -> str:
    """That more threads compute than there are cores, which slow each other down."""
    return f", by {_of_cores(profile)}" if _is_crowded(profile) else ""


def with_threads_in_the_way(profile: Profile) -> str:
    """With how many threads a share was timed, as it goes on, where fewer were clearly faster."""
    faster = _one_is_faster(profile)
    if not faster:
        return ""
    return f" with {_of_cores(profile)}, of which one alone computes {times(faster)} as fast"


def _one_is_faster(profile: Profile) -> float:
    """How many times as fast one thread computes, where that is clear; else 0."""
    faster = profile.probes.get(ONE_THREAD, 1.0)
    return faster if faster > CLEARLY_FASTER else 0.0


def _is_crowded(profile: Profile) -> bool:
    return profile.machine.device == CPU and profile.seen.threads > profile.machine.cores


def _of_cores(profile: Profile) -> str:
    threads, cores = profile.seen.threads, profile.machine.cores
    return f"{threads} threads on {cores} core{'s' * (cores != 1)}"


def _spinning_share(profile: Profile) -> float:
    """Of a step, what one thread for NumPy's linear algebra does away with; 0 where that was not
    timed.
    """
    gain = profile.probes.get(ONE_BLAS_THREAD, 1.0)
    return max(0.0, 1 - 1 / gain)


def _crowded_share(profile: Profile) -> float:
    """Of computing, what one thread does away with where more compute than there are cores; 0 where
    that was not timed.
    """
    gain = profile.probes.get(ONE_THREAD, 1.0) if _is_crowded(profile) else 1.0
    return max(0.0, 1 - 1 / gain)


def too_many_threads(profile: Profile) -> Finding | None:
    """More threads than cores, where one of them was timed to be faster."""
    share = _crowded_share(profile)
    grade = severity(share, _WARNING, _CRITICAL)
    if not grade:
        return None
    gain = profile.probes[ONE_THREAD]
    return Finding(
        bottleneck=Bottleneck.THREADS,
        severity=grade,
        evidence="As many as there are cores may be faster still.",
        max_gain=None,
        headline=f"Computes with {_of_cores(profile)}, which wait for one another: one alone "
        f"computes {times(gain)} as fast.",
    )


def _threads_of_numpy(profile: Profile) -> Finding | None:
    """NumPy's threads beside torch's, where one of them was timed to be faster."""
    share = _spinning_share(profile)
    grade = severity(share, _WARNING, _CRITICAL)
    if not grade:
        return None
    gain, cores = profile.probes[ONE_BLAS_THREAD], profile.machine.cores
    return Finding(
        bottleneck=Bottleneck.THREADS,
        severity=grade,
        evidence=f"OpenBLAS has {profile.seen.blas_threads} threads in this process, torch "
        f"{profile.seen.threads}, on {cores} core{'s' * (cores != 1)}.",
        max_gain=gain,
        headline="NumPy's threads are in the way: with one thread for NumPy's linear algebra it "
        f"ran {times(gain)} as fast.",
    )
