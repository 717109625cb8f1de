"""Both loss curves as lines to draw: raw, smoothed, and the band that the tuned one must keep."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.outputs.charts import PLOT_HEIGHT, Tick, grid
from autotune.outputs.wording import counted
from autotune.verdict.courses import FLOOR, SMOOTHED_SHARE, SMOOTHED_STEPS
from autotune.verdict.parity import Parity

# Lines are drawn in a box this wide, which the page stretches to its own width.
BOX_WIDTH = 1000

_MOST_PLACES = 200  # along a line: a stretch of losses is drawn as its lowest and its highest
_TRIMMED = 0.005  # of the raw losses on either side may lie outside the frame
_MARGIN = 0.04  # of the frame's height, above and below
_TABLE_ROWS = 10

# A step, counted from 0, and a loss; between two steps for a mean of several.
Place = tuple[float, float]
Curve = tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Both smoothed losses after a step; `difference` is relative to what the verdict's distances
    are relative to, None where it means nothing.
    """

    step: int
    baseline: float
    tuned: float
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossChart:
    """Paths in SVG's own words, in a box of `BOX_WIDTH` by `PLOT_HEIGHT`; "" draws nothing."""

    baseline_raw: str
    tuned_raw: str
    baseline: str
    tuned: str
    band: str
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    table: tuple[Row, ...]
    drawn: str
    width: int = BOX_WIDTH
    height: int = PLOT_HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    steps: int
    low: float
    high: float

    def place(self, step: float, loss: float) -> str:
        x = BOX_WIDTH * step / max(self.steps - 1, 1)
        return f"{x:.1f} {self.height(loss):.1f}"

    def height(self, loss: float) -> float:
        return PLOT_HEIGHT * (self.high - loss) / (self.high - self.low)


def loss_chart(parity: Parity) -> LossChart | None:
    """The curves of `parity`; None where they have too few losses to be smoothed."""
    steps = min(len(parity.baseline_losses), len(parity.tuned_losses))
    raw = parity.baseline_losses[:steps], parity.tuned_losses[:steps]
    width = max(SMOOTHED_STEPS, round(SMOOTHED_SHARE * steps))
    baseline, tuned = (smoothed(losses, width) for losses in raw)
    if not any(map(_is_known, baseline)) or not any(map(_is_known, tuned)):
        return None
    low, high = _band(baseline, parity.band or 0.0)
    frame = _frame(raw, (tuned, low, high))
    return LossChart(
        baseline_raw=_path(_outline(raw[0]), frame),
        tuned_raw=_path(_outline(raw[1]), frame),
        baseline=_path(_thinned(baseline), frame),
        tuned=_path(_thinned(tuned), frame),
        band=_area(_thinned(low), _thinned(high), frame) if parity.band else "",
        rows=tuple(
            Tick(at=round(frame.height(loss), 1), text=f"{loss:,.10g}")
            for loss in grid(frame.low, frame.high)
        ),
        columns=tuple(
            Tick(at=round(100 * (step - 1) / (steps - 1), 2), text=f"{step:,.0f}")
            for step in grid(0, steps)
            if step >= 1
        ),
        table=_table(baseline, tuned),
        drawn=_said(raw, frame, width),
    )


def smoothed(losses: Sequence[float], width: int) -> Curve:
    """The mean of every `width` consecutive losses, each at the middle of its steps.

    It is what the verdict compares; a loss that is not a number is left out of its means.
    """
    sums, counts = [0.0], [0]
    for loss in losses:
        finite = math.isfinite(loss)
        sums.append(sums[-1] + (loss if finite else 0.0))
        counts.append(counts[-1] + finite)
    curve: list[Place] = []
    for start in range(len(losses) - width + 1):
        count = counts[start + width] - counts[start]
        mean = (sums[start + width] - sums[start]) / count if count else math.nan
        curve.append((start + (width - 1) / 2, mean))
    return tuple(curve)


def _band(baseline: Curve, band: float) -> tuple[Curve, Curve]:
    """The lower and the upper edge of what lies within `band` of `baseline`."""
    least = _least(baseline)
    edges = [
        (step, loss, band * max(abs(loss), least)) for step, loss in filter(_is_known, baseline)
    ]
    low = tuple((step, loss - reach) for step, loss, reach in edges)
    return low, tuple((step, loss + reach) for step, loss, reach in edges)


def _least(baseline: Curve) -> float:
    """What differences are relative to where losses are smaller."""
    return FLOOR * abs(next(loss for _, loss in filter(_is_known, baseline)))


def _frame(raw: Sequence[Sequence[float]], curves: Sequence[Curve]) -> _Frame:
    scattered = sorted(loss for losses in raw for loss in losses if math.isfinite(loss))
    cut = int(len(scattered) * _TRIMMED)
    held = [scattered[cut], scattered[len(scattered) - 1 - cut]]
    held += [loss for curve in curves for _, loss in filter(_is_known, curve)]
    low, high = min(held), max(held)
    margin = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
    return _Frame(steps=len(raw[0]), low=low - margin, high=high + margin)


def _outline(losses: Sequence[float]) -> Curve:
    """The raw losses; where they are many, the extremes of each stretch, which look the same."""
    length = math.ceil(len(losses) / _MOST_PLACES)
    if length <= 2:
        return tuple(enumerate(losses))
    places: list[Place] = []
    for start in range(0, len(losses), length):
        stretch = sorted(
            (loss, step)
            for step, loss in enumerate(losses[start : start + length], start)
            if math.isfinite(loss)
        )
        ends = {stretch[0], stretch[-1]} if stretch else {(math.nan, start)}
        places += sorted((step, loss) for loss, step in ends)
    return tuple(places)


def _thinned(curve: Curve) -> Curve:
    stride = max(1, math.ceil(len(curve) / _MOST_PLACES))
    return (*curve[:-1:stride], *curve[-1:])


def _path(curve: Curve, frame: _Frame) -> str:
    """Lines along `curve`, interrupted where there is no number."""
    words: list[str] = []
    pen = "M"
    for step, loss in curve:
        known = math.isfinite(loss)
        if known:
            words.append(pen + frame.place(step, loss))
        pen = "L" if known else "M"
    return "".join(words)


def _area(low: Curve, high: Curve, frame: _Frame) -> str:
    """The area between two edges."""
    places = [frame.place(step, loss) for step, loss in (*high, *reversed(low))]
    return "M" + "L".join(places) + "Z"


def _is_known(place: Place) -> bool:
    return math.isfinite(place[1])


def _table(baseline: Curve, tuned: Curve) -> tuple[Row, ...]:
    last, least = len(baseline) - 1, _least(baseline)
    rows: list[Row] = []
    for index in sorted({round(last * row / _TABLE_ROWS) for row in range(_TABLE_ROWS + 1)}):
        (step, before), (_, after) = baseline[index], tuned[index]
        scale = max(abs(before), least)
        difference = (after - before) / scale if scale else None
        rows.append(Row(step=round(step) + 1, baseline=before, tuned=after, difference=difference))
    return tuple(rows)


def _said(raw: Sequence[Sequence[float]], frame: _Frame, width: int) -> str:
    """What the picture leaves out, in words."""
    steps = len(raw[0])
    length = math.ceil(steps / _MOST_PLACES)
    words = [f"{counted(steps, 'step')} of each"]
    if length > 2:
        words.append(f"faint lines join the lowest and the highest loss of every {length} steps")
    else:
        words.append("faint lines are the losses as they came")
    words.append(f"firm lines are the mean of {counted(width, 'step')}")
    lost = sum(not math.isfinite(loss) for losses in raw for loss in losses)
    outside = sum(loss < frame.low or loss > frame.high for losses in raw for loss in losses)
    if lost:
        words.append(f"not a number: {counted(lost, 'loss', 'losses')}")
    if outside:
        words.append(f"outside the frame: {counted(outside, 'loss', 'losses')}")
    return "; ".join(words) + "."
