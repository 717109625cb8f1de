"""Threads of several libraries that take the cores from one another."""

from autotune.diagnosis.finding import Bottleneck, Finding, severity, times
from autotune.profiling.profile import Profile
from autotune.workload.window import ONE_BLAS_THREAD

# Of a step, what is over once NumPy's linear algebra has one thread; timed in turns, but in windows
# of a fraction of a second.
_WARNING, _CRITICAL = 0.10, 0.20


def spinning_share(profile: Profile) -> float:
    """Of a step, what one thread for NumPy's linear algebra does away with; 0 where that was not
    timed.
    """
    gain = profile.probes.get(ONE_BLAS_THREAD, 1.0)
    return max(0.0, 1 - 1 / gain)


def threads_in_the_way(profile: Profile) -> Finding | None:
    """NumPy's threads beside torch's, where one of them was timed to be faster."""
    share = spinning_share(profile)
    grade = severity(share, _WARNING, _CRITICAL)
    if not grade:
        return None
    gain, cores = profile.probes[ONE_BLAS_THREAD], profile.machine.cores
    return Finding(
        bottleneck=Bottleneck.THREADS,
        severity=grade,
        evidence=f"OpenBLAS has {profile.seen.blas_threads} threads in this process, torch "
        f"{profile.seen.threads}, on {cores} core{'s' * (cores != 1)}. OpenBLAS's may go on "
        "spinning for tens of milliseconds after each product of NumPy's, on cores that torch's "
        "then wait for.",
        max_gain=gain,
        headline="NumPy's threads are in the way: with one thread for NumPy's linear algebra it "
        f"ran {times(gain)} as fast.",
    )
