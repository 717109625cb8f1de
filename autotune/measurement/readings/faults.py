"""Memory that a program takes from the system again and again: said, and known to make its
processes differ.
"""

import math
from collections.abc import Sequence

from autotune.measurement.ratios import PAIR_SCATTER
from autotune.profiling.profile import Doubt
from autotune.workload.window import Window, page_faults_per_second

# In a second of training. A page that is given anew, and set to zeros, takes some microseconds:
# below this it is a few percent of the time at the most. Chosen, not measured.
NOTABLE_FAULTS = 20_000

# How far processes of a program that takes so many pages a second anew lie apart, beyond what any
# do, for each of them: next to nothing to 0.9 us in three programs (reports/programs,
# *_page_faults.tsv and pictures_by_process.tsv), between which this is chosen.
FAULT_SCATTER = 0.5e-6


def scatter_of(*contestants: Sequence[Window]) -> float:
    """What the log-ratio of two processes of such `contestants` is expected to scatter by."""
    faults = (page_faults_per_second(windows) or 0.0 for windows in contestants)
    return math.hypot(PAIR_SCATTER, *(FAULT_SCATTER * each for each in faults))


def doubts_of_faults(windows: Sequence[Window]) -> tuple[Doubt, ...]:
    """Whether the program's allocator gives back in each step what it takes again in the next."""
    faults = page_faults_per_second(windows)
    if faults is None or faults < NOTABLE_FAULTS:
        return ()
    return (
        Doubt(
            name="memory taken anew",
            evidence=f"It takes {faults:,.0f} pages of memory a second from the system and gives "
            "them back. How many differs from process to process, and its speed with it.",
            advice="The setting `keep_freed_memory` ends most of that; a search tries it.",
        ),
    )
