"""Both loss curves as lines to draw: raw and smoothed, with the band that the tuned one must stay in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.outputs.charts import PLOT_HEIGHT, Tick, grid
from autotune.outputs.wording import counted
from autotune.verdict import Parity

# Lines are drawn in a box this wide, which the page stretches to its own width.
BOX_WIDTH = 1000

_MOST_PLACES = 200  # along a line: a stretch of losses is drawn as its lowest and its highest
_SMOOTHED_OVER = 20  # a smoothed loss is the mean over this part of the steps
_TRIMMED = 0.005  # of the raw losses on either side may lie outside the frame
_MARGIN = 0.04  # of the frame's height, above and below
_TABLE_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Both smoothed losses after a step; `difference` is relative, None where it means nothing."""

    step: int
    baseline: float
    tuned: float
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossChart:
    """Paths in SVG's own words, in a box of `BOX_WIDTH` by `PLOT_HEIGHT`; "" where there is nothing to draw."""

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
    """The curves of `parity`; None where fewer than two losses of either are known."""
    steps = min(len(parity.baseline_losses), len(parity.tuned_losses))
    raw = parity.baseline_losses[:steps], parity.tuned_losses[:steps]
    if steps < 2 or not all(any(map(math.isfinite, losses)) for losses in raw):
        return None
    width = max(1, steps // _SMOOTHED_OVER)
    baseline, tuned = (smoothed(losses, width) for losses in raw)
    frame = _frame(raw, (baseline, tuned), parity.band or 0.0)
    return LossChart(
        baseline_raw=_outline(raw[0], frame),
        tuned_raw=_outline(raw[1], frame),
        baseline=_line(baseline, frame),
        tuned=_line(tuned, frame),
        band=_band(baseline, parity.band, frame),
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


def smoothed(losses: Sequence[float], width: int) -> tuple[float, ...]:
    """The mean of `width` neighbours at each step, fewer at the ends; what is not a number is left out of it."""
    sums, counts = [0.0], [0]
    for loss in losses:
        finite = math.isfinite(loss)
        sums.append(sums[-1] + (loss if finite else 0.0))
        counts.append(counts[-1] + finite)
    means: list[float] = []
    for step in range(len(losses)):
        start, end = max(0, step - width // 2), min(len(losses), step + width // 2 + 1)
        count = counts[end] - counts[start]
        means.append((sums[end] - sums[start]) / count if count else math.nan)
    return tuple(means)


def _frame(
    raw: Sequence[Sequence[float]], smooth: Sequence[Sequence[float]], band: float
) -> _Frame:
    scattered = sorted(loss for losses in raw for loss in losses if math.isfinite(loss))
    cut = int(len(scattered) * _TRIMMED)
    held = [scattered[cut], scattered[len(scattered) - 1 - cut]]
    held += [loss for losses in smooth for loss in losses if math.isfinite(loss)]
    held += [
        loss + side * band * abs(loss)
        for loss in smooth[0]
        if math.isfinite(loss)
        for side in (-1, 1)
    ]
    low, high = min(held), max(held)
    margin = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
    return _Frame(steps=len(raw[0]), low=low - margin, high=high + margin)


def _outline(losses: Sequence[float], frame: _Frame) -> str:
    """The raw losses; where they are many, the lowest and the highest of each stretch, which looks the same."""
    length = math.ceil(len(losses) / _MOST_PLACES)
    if length <= 2:
        return _path(list(enumerate(losses)), frame)
    places: list[tuple[float, float]] = []
    for start in range(0, len(losses), length):
        stretch = sorted(
            (loss, step)
            for step, loss in enumerate(losses[start : start + length], start)
            if math.isfinite(loss)
        )
        ends = {stretch[0], stretch[-1]} if stretch else {(math.nan, start)}
        places += sorted((step, loss) for loss, step in ends)
    return _path(places, frame)


def _line(losses: Sequence[float], frame: _Frame) -> str:
    return _path([(step, losses[step]) for step in _thinned(len(losses))], frame)


def _band(losses: Sequence[float], band: float | None, frame: _Frame) -> str:
    known = [step for step in _thinned(len(losses)) if math.isfinite(losses[step])]
    if not band or len(known) < 2:
        return ""
    above = [frame.place(step, losses[step] + band * abs(losses[step])) for step in known]
    below = [frame.place(step, losses[step] - band * abs(losses[step])) for step in known]
    return "M" + "L".join([*above, *reversed(below)]) + "Z"


def _path(places: Sequence[tuple[float, float]], frame: _Frame) -> str:
    """Lines through `places`, interrupted where there is no number."""
    words: list[str] = []
    pen = "M"
    for step, loss in places:
        if math.isfinite(loss):
            words.append(pen + frame.place(step, loss))
            pen = "L"
        else:
            pen = "M"
    return "".join(words)


def _thinned(steps: int) -> list[int]:
    stride = max(1, math.ceil(steps / _MOST_PLACES))
    kept = list(range(0, steps, stride))
    return kept if kept[-1] == steps - 1 else [*kept, steps - 1]


def _table(baseline: Sequence[float], tuned: Sequence[float]) -> tuple[Row, ...]:
    last = len(baseline) - 1
    steps = sorted({round(last * row / _TABLE_ROWS) for row in range(_TABLE_ROWS + 1)})
    return tuple(
        Row(
            step=step + 1,
            baseline=baseline[step],
            tuned=tuned[step],
            difference=(tuned[step] - baseline[step]) / abs(baseline[step])
            if baseline[step]
            else None,
        )
        for step in steps
    )


def _said(raw: Sequence[Sequence[float]], frame: _Frame, width: int) -> str:
    """What the picture leaves out, in words."""
    steps = len(raw[0])
    length = math.ceil(steps / _MOST_PLACES)
    words = [f"{counted(steps, 'step')} of each"]
    if length > 2:
        words.append(f"faint lines join the lowest and the highest loss of every {length} steps")
    else:
        words.append("faint lines are the losses as they came")
    words.append(f"firm lines are the mean of {counted(2 * (width // 2) + 1, 'step')}")
    lost = sum(not math.isfinite(loss) for losses in raw for loss in losses)
    outside = sum(loss < frame.low or loss > frame.high for losses in raw for loss in losses)
    if lost:
        words.append(f"not a number: {counted(lost, 'loss', 'losses')}")
    if outside:
        words.append(f"outside the frame: {counted(outside, 'loss', 'losses')}")
    return "; ".join(words) + "."
