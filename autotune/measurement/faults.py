"""Memory that a program takes from the system again and again."""

from collections.abc import Sequence

from autotune.profiling.profile import Doubt
from autotune.workload.window import Window

# In a second of training. A page that is given anew, and set to zeros, takes some microseconds:
# below this it is a few percent of the time at the most. Chosen, not measured.
NOTABLE_FAULTS = 20_000


def doubts_of_faults(windows: Sequence[Window]) -> tuple[Doubt, ...]:
    """Whether the program's allocator gives back in each step what it takes again in the next."""
    known = [each for each in windows if each.page_faults is not None]
    seconds = sum(each.seconds + each.validation_seconds for each in known)
    faults = sum(each.page_faults or 0 for each in known)
    if not seconds or faults / seconds < NOTABLE_FAULTS:
        return ()
    return (
        Doubt(
            name="memory taken anew",
            evidence="It gives memory back to the system and takes it again all the time: "
            f"{faults / seconds:,.0f} page faults a second. When glibc does so hangs on how a "
            "process's memory happens to lie: another process of the same program may do it less, "
            "or more.",
            advice="With MALLOC_TRIM_THRESHOLD_=1073741824 and MALLOC_MMAP_THRESHOLD_=33554432 in "
            "the environment it keeps most of it: start the program with them, and search it so.",
        ),
    )
