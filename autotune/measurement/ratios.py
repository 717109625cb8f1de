"""What may be said from turns that two programs took: how much faster one is, and how sure that is.

Every interval is two-sided. Two fresh processes of one program differ for as long as they live, so
the ratio is one of process pairs, each of several turns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist, fmean

from autotune.measurement.statistics import (
    CONFIDENCE,
    SCATTER_OF_ONE_TIMING,
    Timed,
    deviations,
    rate,
    student_t,
)

# Two fresh processes of one program differ for as long as they live (where their memory lies, which
# cores they are on). Scatter of the log-ratio of two such processes (0.06 to 0.09 among busy
# neighbours, from 6 to 8 pairs each of four small trainings; a quiet machine has half of that), and
# for how many process pairs' worth of evidence it counts.
PAIR_SCATTER = 0.05
PAIR_SCATTER_WEIGHT = 3

# Correlation of neighbouring turns is estimated, but never beyond this: from few turns it is mostly
# noise.
MOST_CORRELATION = 0.6

# The plan of turns: each of a pair of fresh processes takes so many, more where turns scatter more
# than processes differ, and the ratio is looked at after so many pairs. By
# tests/bench/simulation.py (reports/bench/simulation.txt), in the usual noise (5 % a turn, 2.5 % a
# process): two identical programs are told apart in 1 search of 100 (4 of 100 where processes
# differ by 5 %, 6 where turns are much alike); a difference of 10 % is found in 96 of 100, of 20 %
# in all. With 5 turns for all, 10 % are found in 90 of 100; where turns scatter by 12 %, in 34
# instead of 57.
FEWEST_TURNS_PER_PROCESS, MOST_TURNS_PER_PROCESS = 5, 15
LOOKS = (1, 4, 8)

# Nominal two-sided error of each look, so that all looks together err 5 times in 100 (Pocock 1977,
# Biometrika 64).
_POCOCK_ERROR = {1: 0.05, 2: 0.0294, 3: 0.0221, 4: 0.0182, 5: 0.0158}

# The turns of two contestants next to each other.
Pair = tuple[Timed, Timed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """An estimated ratio with its interval; `confidence` is the interval's level."""

    estimate: float
    low: float
    high: float
    confidence: float = CONFIDENCE

    def spans(self, factor: float) -> bool:
        """Whether the interval's ends lie further apart than by `factor`."""
        return self.high > factor * self.low


def widened(ratio: Ratio, sd: float) -> Ratio:
    """`ratio` with an interval that knows of a further deviation of its logarithm, independent of
    those that it has.
    """
    if not sd:
        return ratio
    more = sd * NormalDist().inv_cdf((1 + ratio.confidence) / 2)
    reaches = ratio.estimate / ratio.low, ratio.high / ratio.estimate
    down, up = (math.hypot(math.log(each), more) for each in reaches)
    low, high = ratio.estimate * math.exp(-down), ratio.estimate * math.exp(up)
    return replace(ratio, low=low, high=high)


def confidence_per_look(looks: int) -> float:
    """Level at which each of `looks` planned looks must be taken so that together they have 95 %.

    Raises:
        ValueError: more looks than the table has, or none.
    """
    if looks not in _POCOCK_ERROR:
        raise ValueError(f"{looks} looks: plan between 1 and {max(_POCOCK_ERROR)}")
    return 1 - _POCOCK_ERROR[looks]


def ratio_in_turns(
    processes: Sequence[Sequence[Pair]],
    *,
    confidence: float = CONFIDENCE,
    scatter: float = PAIR_SCATTER,
) -> Ratio:
    """How much faster the second contestant is than the first, from turns taken next to each other.

    The estimate is the geometric mean over process pairs of the ratio of their throughputs (totals,
    so it is what a stopwatch would show). Its variance is that of the process pairs' own
    log-ratios, moderated: with few pairs their scatter is barely known, so it is pooled with what
    was expected (Smyth 2004, doi 10.2202/1544-6115.1027). That is `scatter`, assumed as if
    `PAIR_SCATTER_WEIGHT` further pairs had shown it, plus the scatter of turns within a process,
    inflated for the likeness of neighbouring turns, which is known as well as there were turns;
    together they count as many degrees of freedom as Satterthwaite's approximation gives (1946,
    doi 10.2307/3002019). One pair alone thus has an interval too.

    Args:
        processes: for each pair of live processes its turns, each as (samples, seconds) of the
            first and of the second.
        confidence: level of the interval; `confidence_per_look` where the caller looks repeatedly.
        scatter: of the log-ratio of two processes of these programs.

    Raises:
        ValueError: there is no turn, or a contestant trained on nothing in all of its turns.
    """
    pairs = [list(turns) for turns in processes if turns]
    if not pairs:
        raise ValueError("a ratio needs at least one turn of each contestant")
    logs = [log_ratio(turns) for turns in pairs]
    estimate = fmean(logs)
    expected, weight = expected_variance(pairs, scatter)
    seen = math.fsum((log - estimate) ** 2 for log in logs)
    degrees = weight + len(pairs) - 1
    error = math.sqrt((weight * expected + seen) / degrees / len(pairs))
    reach = student_t(confidence, degrees) * error
    low, high = (math.exp(estimate + side * reach) for side in (-1, 1))
    return Ratio(estimate=math.exp(estimate), low=low, high=high, confidence=confidence)


def expected_variance(
    pairs: Sequence[Sequence[Pair]], scatter: float = PAIR_SCATTER
) -> tuple[float, float]:
    """Variance that the log-ratios of such process pairs should have, and how many degrees of
    freedom that is worth; see `ratio_in_turns`.
    """
    assumed, (within, known) = scatter**2, variance_within(pairs)
    expected = assumed + within
    degrees = expected**2 / (assumed**2 / PAIR_SCATTER_WEIGHT + within**2 / known)
    return expected, max(PAIR_SCATTER_WEIGHT, degrees)  # few turns are no reason to assume less


def log_ratio(turns: Sequence[Pair]) -> float:
    """Logarithm of how much faster the second contestant was, over all of `turns`.

    Raises:
        ValueError: a contestant trained on nothing.
    """
    first, second = rate([a for a, _ in turns]), rate([b for _, b in turns])
    if first <= 0 or second <= 0:
        raise ValueError("a contestant trained on nothing in all of its turns")
    return math.log(second / first)


def are_enough_turns(turns: Sequence[Pair]) -> bool:
    """Whether more turns of the same two processes would say little more: they differ by more for
    as long as they live. Stopping by scatter alone favours neither.
    """
    variance, _ = variance_within([turns])
    return variance <= PAIR_SCATTER**2


def variance_within(pairs: Sequence[Sequence[Pair]]) -> tuple[float, float]:
    """Variance of one process pair's log-ratio that comes from its turns alone, and the degrees of
    freedom that it is known with.

    Half of the degrees that turns so much alike have: how much they are is a guess from few of
    them (tests/bench/simulation.py, "alike turns").
    """
    squares = products = 0.0
    degrees = turns_seen = 0
    for turns in pairs:
        firsts, seconds = deviations([a for a, _ in turns]), deviations([b for _, b in turns])
        moves = [b - a for a, b in zip(firsts, seconds, strict=True)]
        squares += math.fsum(move * move for move in moves)
        products += math.fsum(a * b for a, b in pairwise(moves))
        degrees += len(turns) - 1
        turns_seen += len(turns)
    if degrees == 0:
        return 2 * SCATTER_OF_ONE_TIMING**2, 1.0
    scatter = squares / degrees
    # The lag-1 correlation of n deviations from their own mean is too low by about 1/n.
    likeness = (products / squares if squares else 0.0) + len(pairs) / turns_seen
    likeness = min(max(likeness, 0.0), MOST_CORRELATION)
    per_process = fmean(1 / len(turns) for turns in pairs)
    inflated = (1 + likeness) / (1 - likeness)
    return scatter * inflated * per_process, max(1.0, degrees / inflated / 2)
