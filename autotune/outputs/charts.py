"""Where every mark of the report's charts goes; the templates draw them as SVG.

Widths are in percent of the chart's box and heights in pixels, so that a chart is as wide as its
page and its words stay as large as they are.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autotune.measurement.measurement import Measurement
from autotune.trials.trial import Trial

PLOT_HEIGHT = 240  # pixels
_FAILURE_HEIGHT = 22  # pixels at the foot of the trials' plot, where the failures stand
_HEAD_ROOM = 1.06  # of the greatest value, so that no mark touches the frame
_GRID_LINES = 5  # about as many as fit without a crowd
_INSET = 2.5  # percent on either side of the trials' plot, so that no mark is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar with its words. `amount` is None where it was not measured, and `note` says why."""

    label: str
    amount: float | None
    text: str
    interval: tuple[float, float] | None = None
    note: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Bars on a common scale that begins at 0."""

    bars: tuple[Bar, ...]
    greatest: float

    def percent(self, amount: float) -> float:
        """How far from the left `amount` lies, in percent of the chart's width."""
        return round(100 * _clipped(amount / self.greatest), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a stacked bar, from `start` for `width`, both in percent of it.

    `shade` is one of a few greys.
    """

    name: str
    share: float
    start: float
    width: float
    marked: bool
    shade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A labelled place on an axis: in pixels from the top, or in percent from the left."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A trial in its plot; `low` and `high` are the ends of its interval, None where it failed."""

    trial: Trial
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """While trials from `start` to `end` ran (percent), the best so far stood at `y` (pixels)."""

    start: float
    end: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialChart:
    """Every trial in its order, the best so far, and the program as it is."""

    points: tuple[Point, ...]
    failures: tuple[Point, ...]
    best: tuple[Stretch, ...]
    baseline: float | None
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    height: int = PLOT_HEIGHT


def bar_chart(bars: Iterable[Bar]) -> BarChart:
    """`bars` on a scale that holds them all, intervals too."""
    drawn = tuple(bars)
    ends = [bar.amount for bar in drawn if bar.amount is not None]
    ends += [bar.interval[1] for bar in drawn if bar.interval is not None]
    finite = [end for end in ends if math.isfinite(end) and end > 0]
    return BarChart(bars=drawn, greatest=max(finite, default=1.0))


def stack(shares: Iterable[tuple[str, float]], marked: frozenset[str]) -> tuple[Segment, ...]:
    """The named `shares` end to end, scaled to the whole width; those in `marked` stand out."""
    known = [(name, share) for name, share in shares if math.isfinite(share) and share > 0]
    total = math.fsum(share for _, share in known) or 1.0
    segments: list[Segment] = []
    start = 0.0
    for shade, (name, share) in enumerate(known):
        width = 100 * share / total
        segments.append(
            Segment(
                name=name,
                share=share,
                start=round(start, 3),
                width=round(width, 3),
                marked=name in marked,
                shade=shade % 4,
            )
        )
        start += width
    return tuple(segments)


def trial_chart(trials: Sequence[Trial]) -> TrialChart:
    """Where each of `trials` stands, in the order in which they ran."""
    rows, top = _rows(trials)
    width = (100 - 2 * _INSET) / max(len(trials) - 1, 1)
    places = [round(_INSET + width * index, 2) for index in range(len(trials))]
    points = [
        _point(trial, trial.outcome, x, top)
        for trial, x in zip(trials, places, strict=True)
        if isinstance(trial.outcome, Measurement)
    ]
    if points:
        fastest = min(range(len(points)), key=lambda index: points[index].y)
        points[fastest] = replace(points[fastest], best=True)
    return TrialChart(
        points=tuple(points),
        failures=tuple(
            Point(trial=trial, x=x, y=PLOT_HEIGHT - _FAILURE_HEIGHT / 2)
            for trial, x in zip(trials, places, strict=True)
            if not isinstance(trial.outcome, Measurement)
        ),
        best=_best_so_far(points),
        baseline=next((point.y for point in points if not point.trial.config), None),
        rows=rows,
        columns=tuple(
            Tick(at=places[index], text=str(trials[index].number)) for index in _spread(len(trials))
        ),
    )


def grid(least: float, greatest: float) -> tuple[float, ...]:
    """Round numbers from `least` to `greatest`, about as many as a chart has lines."""
    if not least < greatest:
        return (least,)
    rough = (greatest - least) / _GRID_LINES
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
    first = math.ceil(least / step - 1e-9)
    last = math.floor(greatest / step + 1e-9)
    return tuple(number * step for number in range(first, last + 1))


def _rows(trials: Sequence[Trial]) -> tuple[tuple[Tick, ...], float]:
    """Labelled heights from 0 up, and the throughput at the top of the plot."""
    ends = [
        end
        for trial in trials
        if isinstance(trial.outcome, Measurement)
        for end in (trial.outcome.samples_per_second, trial.outcome.interval[1])
        if math.isfinite(end) and end > 0
    ]
    top = max(ends, default=1.0) * _HEAD_ROOM
    rows = (Tick(at=_height(amount, top), text=f"{amount:,.10g}") for amount in grid(0.0, top))
    return tuple(rows), top


def _point(trial: Trial, outcome: Measurement, x: float, top: float) -> Point:
    low, high = (_height(end, top) for end in outcome.interval)
    return Point(trial=trial, x=x, y=_height(outcome.samples_per_second, top), low=low, high=high)


def _height(amount: float, top: float) -> float:
    room = PLOT_HEIGHT - _FAILURE_HEIGHT
    return round(room * (1 - _clipped(amount / top)), 1)


def _best_so_far(points: Sequence[Point]) -> tuple[Stretch, ...]:
    stretches: list[Stretch] = []
    for point in points:
        if stretches:
            stretches[-1] = replace(stretches[-1], end=point.x)
        if not stretches or point.y < stretches[-1].y:  # higher up is faster
            stretches.append(Stretch(start=point.x, end=point.x, y=point.y))
    return tuple(stretches)


def _spread(count: int) -> tuple[int, ...]:
    """Indices to label on an axis of `count` places: round ones, the first among them."""
    step = next(each for each in (1, 2, 5, 10, 20, 50, 100, 1000, 10**9) if count <= 12 * each)
    return tuple(range(0, count, step))


def _clipped(share: float) -> float:
    """`share` within 0 and 1; nan is 0, since `max` keeps its first argument beside a nan."""
    return min(1.0, max(0.0, share))
