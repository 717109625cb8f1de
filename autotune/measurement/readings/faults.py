"""Memory that a program takes from the system again and again: said, and known to make its
processes differ.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from autotune.knobs.keep_freed_memory import FAULT_SECONDS, FEW_FAULTS
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Measurement
from autotune.measurement.ratios import PAIR_SCATTER
from autotune.profiling.profile import TAKEN_AGAIN, Doubt, Profile
from autotune.workload.window import Window, page_faults_per_second

# In a second of training. A page that is given anew, and set to zeros, takes some microseconds:
# below this it is a few percent of the time at the most. Chosen, not measured.
NOTABLE_FAULTS = 20_000

# How far processes of a program that takes so many pages a second anew lie apart, beyond what any
# do, for each of them: next to nothing to 0.9 us in three programs (reports/programs,
# *_page_faults.tsv and pictures_by_process.tsv), between which this is chosen.
FAULT_SCATTER = 0.5e-6

# How far the pages that a plain run takes lie from what runs of the same program took while they
# were timed, as a share of that: these are as many processes, but all with the same random numbers,
# and take alike. Chosen between two programs (reports/programs, faults_by_process.tsv), of which
# plain runs took from a tenth to all of it.
UNKNOWN_SHARE = 0.5

# Windows in which it takes much, and little, by the most that it took in a step of one.
MUCH, LITTLE = 0.5, 0.25
# What is left of a step's time where so much is not worth a word.
_MOST_LEFT = 0.98


def calm_share(windows: Sequence[Window], timed: Sequence[Window] = ()) -> float:
    """What is left of a step's time while the program takes little memory anew, where it did so in
    some of `windows`, as once something larger has been freed; 1.0 where it did in none, or never
    takes much. Of the time of a step that takes much, or of one that takes what those of `timed`
    took, by what the windows say between the two.
    """
    known = [each for each in windows if each.page_faults is not None and each.steps]
    a_step = [(each.page_faults or 0) / each.steps for each in known]
    most = max(a_step, default=0.0)
    pairs = list(zip(known, a_step, strict=True))
    much = [each for each, pages in pairs if pages > MUCH * most]
    little = [each for each, pages in pairs if pages < LITTLE * most]
    if not little or (page_faults_per_second(much) or 0.0) < NOTABLE_FAULTS:
        return 1.0
    (few, calm), (many, busy) = _of_a_step(little), _of_a_step(much)
    told = [each for each in timed if each.page_faults is not None and each.steps]
    part = min(max((_of_a_step(told)[0] - few) / (many - few), 0.0), 1.0) if told else 1.0
    return min(1.0, calm / (calm + part * (busy - calm)))


def _of_a_step(windows: Sequence[Window]) -> tuple[float, float]:
    """Page faults and seconds of one step, in the mean."""
    steps = sum(each.steps for each in windows)
    faults = sum(each.page_faults or 0 for each in windows)
    return faults / steps, sum(each.seconds for each in windows) / steps


def scatter_of(*contestants: Sequence[Window]) -> float:
    """What the log-ratio of two processes of such `contestants` is expected to scatter by."""
    faults = (page_faults_per_second(windows) or 0.0 for windows in contestants)
    return math.hypot(PAIR_SCATTER, *(FAULT_SCATTER * each for each in faults))


def unknown_of(one: Sequence[Window], other: Sequence[Window]) -> float:
    """The standard deviation of the log-ratio of two contestants that is the same in all pairs of
    their processes: how much of the time that one of them takes more for memory that it takes anew
    is taken by a plain run too.
    """
    faults = (page_faults_per_second(windows) or 0.0 for windows in (one, other))
    first, second = (FAULT_SECONDS * each for each in faults)
    return UNKNOWN_SHARE * abs(first - second)


def doubts_of_faults(windows: Sequence[Window]) -> tuple[Doubt, ...]:
    """Whether the program's allocator gives back in each step what it takes again in the next."""
    faults, left = page_faults_per_second(windows), calm_share(windows)
    if faults is None or faults < (NOTABLE_FAULTS if left > _MOST_LEFT else FEW_FAULTS):
        return ()
    calm = (
        f" For a while it took few, and a step took {100 * (1 - left):.0f} % less then: a gain "
        "that comes of ending it may hold only for the rest of the time."
    )
    return (
        Doubt(
            name=TAKEN_AGAIN,
            evidence=f"It takes {faults:,.0f} pages of memory a second from the system. Another "
            "process of it may take more or fewer, and run at another speed."
            f"{calm if left <= _MOST_LEFT else ''}",
            advice="Most likely it gave them back before: `keep_freed_memory` ends that.",
        ),
    )


def told_of_keeping(profile: Profile, tried: Sequence[tuple[Config, object]]) -> Profile:
    """`profile`, whose doubt says what was taken with `keep_freed_memory`, where any of these
    settings with their outcomes has it.
    """
    kept = (
        page_faults_per_second(outcome.windows)
        for config, outcome in tried
        if config.get("keep_freed_memory") and isinstance(outcome, Measurement)
    )
    faults = [each for each in kept if each is not None]
    if not faults:
        return profile
    advice = f"With `keep_freed_memory` it took {max(faults):,.0f} at most."
    doubts = (
        replace(each, advice=advice) if each.name == TAKEN_AGAIN else each
        for each in profile.doubts
    )
    return replace(profile, doubts=tuple(doubts))
