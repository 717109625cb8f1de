"""What may be said from the timed windows of one run: a throughput, and whether it is steady.

Every interval is two-sided. Throughput is always samples over wall, never a typical step: where
batches arrive in bursts the median step overstates the speed many times over.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, variance

from autotune.workload.window import Window

CONFIDENCE = 0.95

# Batch means (Law, Simulation Modeling and Analysis, ch. 9): few long batches rather than many
# short ones, because neighbouring windows are alike (lag-1 correlation about 0.3 was seen) and long
# batches are nearly independent.
MOST_BATCHES = 10
FEWEST_BATCHES = 5

# Log-ratio scatter assumed of a throughput that was timed once: windows of different processes
# differed by 0.13 to 0.30.
SCATTER_OF_ONE_TIMING = 0.3

# Warm-up is over when this many windows lie this close together. Adjacent windows of a steady
# program scatter by about 5 %, so three of them span 10 % or less two times in three; a rise or
# fall throughout must be half as small.
STEADY_WINDOWS = 3
STEADY_SPAN = 0.10
STEADY_TREND = 0.05

# Samples and seconds of one stretch.
Timed = tuple[int, float]


def timed(window: Window) -> Timed:
    """The samples and seconds of `window`."""
    return window.samples, window.seconds


def rate(turns: Sequence[Timed]) -> float:
    """Samples per second over all of `turns`; 0.0 where no time passed."""
    seconds = math.fsum(seconds for _, seconds in turns)
    return sum(samples for samples, _ in turns) / seconds if seconds > 0 else 0.0


def student_t(confidence: float, degrees: float) -> float:
    """Half-width, in standard errors, of a two-sided interval with `degrees` degrees of freedom.

    Hill's algorithm (Communications of the ACM 13, 1970, algorithm 396), good to five digits at the
    levels used here. Of a broken number below 3 the whole part counts: the interval gets wider.

    Raises:
        ValueError: `degrees` is below 1 or `confidence` not inside (0, 1).
    """
    if degrees < 1 or not 0 < confidence < 1:
        raise ValueError(f"no t quantile for {confidence=} and {degrees=}")
    tails = 1 - confidence
    if degrees < 2:
        return 1 / math.tan(tails * math.pi / 2)
    if degrees < 3:
        return math.sqrt(2 / (tails * (2 - tails)) - 2)
    return _hill(tails, degrees)


def _hill(tails: float, degrees: float) -> float:
    a = 1 / (degrees - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * degrees
    y: float = (d * tails) ** (2 / degrees)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(tails / 2)
        y = x * x
        if degrees < 5:
            c += 0.3 * (degrees - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        tail = 1 / (((degrees + 6) / (degrees * y) - 0.089 * d - 0.822) * (degrees + 2) * 3)
        y = ((tail + 0.5 / (degrees + 4)) * y - 1) * (degrees + 1) / (degrees + 2) + 1 / y
    return math.sqrt(degrees * y)


def merged(windows: Sequence[Window], least_steps: int = 1) -> tuple[Timed, ...]:
    """Neighbouring windows put together until each holds `least_steps` steps.

    Those left over at the end join the last. A loader with workers delivers in bursts, so a window
    says something only if it holds a whole round of batches: workers x prefetch factor.
    """
    groups: list[tuple[int, int, float]] = []
    for window in windows:
        if groups and groups[-1][0] < least_steps:
            steps, samples, seconds = groups.pop()
        else:
            steps, samples, seconds = 0, 0, 0.0
        groups.append((steps + window.steps, samples + window.samples, seconds + window.seconds))
    if len(groups) > 1 and groups[-1][0] < least_steps:
        steps, samples, seconds = groups.pop()
        groups[-1] = (groups[-1][0] + steps, groups[-1][1] + samples, groups[-1][2] + seconds)
    return tuple((samples, seconds) for _, samples, seconds in groups)


def stable(windows: Sequence[Window], *, least_steps: int = 1) -> bool:
    """Whether warm-up is over: the newest of a run's windows, oldest first, agree and neither rise
    nor fall throughout. Those of fewer than `least_steps` (workers x prefetch factor) are merged.
    """
    newest = [
        samples / seconds
        for samples, seconds in merged(windows, least_steps)[-STEADY_WINDOWS:]
        if seconds > 0
    ]
    if len(newest) < STEADY_WINDOWS or min(newest) <= 0:
        return False
    typical = fmean(newest)
    moves = [later - earlier for earlier, later in pairwise(newest)]
    one_way = all(move > 0 for move in moves) or all(move < 0 for move in moves)
    allowed = STEADY_TREND if one_way else STEADY_SPAN
    return (max(newest) - min(newest)) / typical <= allowed


def throughput(windows: Sequence[Window]) -> tuple[float, tuple[float, float]]:
    """Samples per second over the wall of all `windows`, and its 95 % interval by batch means.

    With few windows their steps are cut into batches instead. One step alone has no scatter of its
    own: its interval is the widest that was seen between processes.
    """
    batches = _batches(_pieces(windows))
    estimate = rate(batches)
    if estimate <= 0:
        return 0.0, (0.0, 0.0)
    if len(batches) < 2:
        factor = math.exp(student_t(CONFIDENCE, 1000) * SCATTER_OF_ONE_TIMING)
        return estimate, (estimate / factor, estimate * factor)
    error = math.sqrt(variance(deviations(batches), 0.0) / len(batches))
    reach = student_t(CONFIDENCE, len(batches) - 1) * error
    return estimate, (estimate * max(0.0, 1 - reach), estimate * (1 + reach))


def _pieces(windows: Sequence[Window]) -> list[Timed]:
    if len(windows) >= FEWEST_BATCHES:
        return [timed(window) for window in windows]
    cuts = math.ceil(MOST_BATCHES / max(1, len(windows)))
    return [piece for window in windows for piece in _cut(window, cuts)]


def _cut(window: Window, cuts: int) -> list[Timed]:
    """`window` as up to `cuts` runs of consecutive steps, with its samples and seconds in sum."""
    steps = window.step_seconds
    count = min(cuts, len(steps))
    total = math.fsum(steps)
    if count < 2 or total <= 0:
        return [timed(window)]
    edges = [round(index * len(steps) / count) for index in range(count + 1)]
    samples = [round(window.samples * edge / len(steps)) for edge in edges]
    return [
        (
            samples[i + 1] - samples[i],
            math.fsum(steps[edges[i] : edges[i + 1]]) / total * window.seconds,
        )
        for i in range(count)
    ]


def _batches(pieces: Sequence[Timed]) -> list[Timed]:
    count = min(MOST_BATCHES, len(pieces))
    edges = [round(index * len(pieces) / count) for index in range(count + 1)] if count else []
    groups = [pieces[start:end] for start, end in pairwise(edges)]
    return [
        (sum(samples for samples, _ in group), math.fsum(s for _, s in group)) for group in groups
    ]


def deviations(turns: Sequence[Timed]) -> list[float]:
    """By how much each turn moves the rate of all, as a share of it (linearised); by nothing where
    there is no sample in any.
    """
    mean_rate = rate(turns)
    mean_samples = mean_rate * fmean(seconds for _, seconds in turns) or 1.0
    return [(samples - mean_rate * seconds) / mean_samples for samples, seconds in turns]
