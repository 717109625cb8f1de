"""Courses of losses: smoothed, how far two of them are apart, and how far they may be."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

# Curves are smoothed over a tenth of the steps, so that the band sees a course and not single
# batches.
SMOOTHED_SHARE = 0.1
SMOOTHED_STEPS = 5

# The band, chosen on five small trainings of 50 and 200 steps, 16 seeds each. Another dropout
# stream or rounding was called another training in 1 of 320. After 200 steps three times the
# learning rate was found in 77 of 80, half the batch in 73, half of the data in 16: as long as a
# model has not seen its data several times, its loss does not tell how much of it there is.
BAND = 0.05  # of the loss, or of all that was learnt where that is less
LEAST_BAND = 0.01  # of the loss, where nothing was learnt
BAND_ERRORS = 5.0  # of the smoothed difference; many, as weights drift apart from step to step
FLOOR = 0.1  # of the first loss: near zero, differences are relative to this

# Where a GradScaler left out steps, the course may be late by as many: by so much as the program's
# own moves in them, over so many steps around or so many widths. Of 40 simulated courses of 150
# steps that lagged by 3, 25 to 40 were refused without this and 0 with it; of 40 steps 40 and up to
# 23, the more the losses scatter. Three quarters of the learning rate were found as before.
LAG_STEPS, LAG_WIDTHS = 15, 2

# Another batch size shows in the scatter from step to step (a half scatters 1.41 times as much)
# before it shows in the course. Pitman and Morgan's test of two paired variances (Biometrika 31,
# 1939), of jumps as shares of what both jump in the steps around: where losses fall, the first few
# are the largest by far, and would decide alone (tests/verdict/test_courses.py has such pairs).
SCATTER_RATIO = 1.2
SCATTER_SIGMAS = 4.0

# The same numbers: another order of additions moves the last digits, and training makes more of it
# with every step.
EXACT_STEPS = 5
EXACT_TOLERANCE = 1e-4


def smooth(values: Sequence[float], width: int) -> tuple[float, ...]:
    """The mean of every `width` consecutive values, in order: `width` - 1 fewer than there were."""
    return tuple(fmean(values[start : start + width]) for start in range(len(values) - width + 1))


def width_of(steps: int) -> int:
    """The losses that are smoothed over, of so many."""
    return max(SMOOTHED_STEPS, round(SMOOTHED_SHARE * steps))


def furthest(first: Sequence[float], second: Sequence[float], late: int) -> tuple[float, float]:
    """How far apart the smoothed curves are, and may be, where they exceed that most.

    Where they never do, it is where they are furthest apart. What `late` steps explain is no
    distance.
    """
    apart = _apart(first, second, late)
    return apart[_furthest(apart)]


def around_furthest(first: Sequence[float], second: Sequence[float], late: int) -> slice:
    """The steps of smoothed curves around the one that `furthest` tells of."""
    step, reach = _furthest(_apart(first, second, late)), _reach(len(first))
    return slice(max(0, step - reach), step + reach + 1)


def heights(losses: Sequence[float]) -> list[float]:
    """What distances from each step of the smoothed curve are relative to."""
    course = smooth(losses, width_of(len(losses)))
    floor = FLOOR * abs(course[0]) or math.ulp(1.0)
    return [max(abs(each), floor) for each in course]


def _reach(steps: int) -> int:
    return max(LAG_STEPS, LAG_WIDTHS * width_of(steps))


def _furthest(apart: Sequence[tuple[float, float]]) -> int:
    steps = range(len(apart))
    worst = max(steps, key=lambda step: apart[step][0] / apart[step][1])
    distance, band = apart[worst]
    return worst if distance > band else max(steps, key=apart.__getitem__)


def _apart(first: Sequence[float], second: Sequence[float], late: int) -> list[tuple[float, float]]:
    """How far apart smoothed curves are, and may be, step by step."""
    width, reach = width_of(len(first)), _reach(len(first))
    ours, theirs = smooth(first, width), smooth(second, width)
    learnt = max(ours) - min(ours)
    errors = _errors([b - a for a, b in zip(first, second, strict=True)], width)
    apart: list[tuple[float, float]] = []
    each = zip(ours, theirs, heights(first), errors, strict=True)
    for step, (a, b, scale, error) in enumerate(each):
        before, after = max(0, step - reach), min(step + reach, len(ours) - 1)
        lag = late * (ours[before] - ours[after]) / max(1, after - before)
        explained = min(max(b - a, min(0.0, lag)), max(0.0, lag))
        tolerated = min(BAND, max(LEAST_BAND, BAND * learnt / scale))
        apart.append((abs(b - a - explained) / scale, max(tolerated, BAND_ERRORS * error / scale)))
    return apart


def _errors(differences: Sequence[float], width: int) -> list[float]:
    """Standard error of each smoothed difference, from the scatter of the steps around it."""
    jumps = [(b - a) ** 2 / 2 for a, b in pairwise(differences)]
    starts = range(len(differences) - width + 1)
    around = (jumps[max(0, start - width) : start + 2 * width] for start in starts)
    return [math.sqrt(fmean(near) / width) for near in around]


def _jumps(first: Sequence[float], second: Sequence[float]) -> tuple[list[float], list[float]]:
    """From step to step, as shares of what both jump in the steps around."""
    ours, theirs = ([b - a for a, b in pairwise(each)] for each in (first, second))
    both, reach = (
        [(a * a + b * b) / 2 for a, b in zip(ours, theirs, strict=True)],
        width_of(len(first)),
    )
    around = (both[max(0, step - reach) : step + reach + 1] for step in range(len(both)))
    scales = [math.sqrt(fmean(near)) or 1.0 for near in around]
    pairs = zip(ours, theirs, scales, strict=True)
    shares = [(a / scale, b / scale) for a, b, scale in pairs]
    return [a for a, _ in shares], [b for _, b in shares]


def scatter_ratio(first: Sequence[float], second: Sequence[float]) -> float | None:
    """How much more the second scatters from step to step, None where that may be chance."""
    ours, theirs = _jumps(first, second)
    sums = [a + b for a, b in zip(ours, theirs, strict=True)]
    gaps = [b - a for a, b in zip(ours, theirs, strict=True)]
    size = math.sqrt(math.fsum(s * s for s in sums) * math.fsum(g * g for g in gaps))
    own = math.fsum(a * a for a in ours)
    if size == 0 or own == 0:
        return None
    likeness = math.fsum(s * g for s, g in zip(sums, gaps, strict=True)) / size
    sigmas = math.atanh(max(-0.999999, min(0.999999, likeness))) * math.sqrt(len(ours) - 3)
    times = math.sqrt(math.fsum(b * b for b in theirs) / own)
    beyond = max(times, 1 / times if times else math.inf) > SCATTER_RATIO
    return times if beyond and abs(sigmas) > SCATTER_SIGMAS else None


def first_difference(first: Sequence[float], second: Sequence[float]) -> int | None:
    """The first of the first steps, counted from 1, whose losses are not the same number; of those
    that both have.
    """
    pairs = zip(first[:EXACT_STEPS], second, strict=False)
    for step, (a, b) in enumerate(pairs, 1):
        if not math.isclose(a, b, rel_tol=EXACT_TOLERANCE, abs_tol=EXACT_TOLERANCE * abs(first[0])):
            return step
    return None
