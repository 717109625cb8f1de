import math
import re

import pytest

from autotune.knobs.knob import Semantics
from autotune.outputs.charts import PLOT_HEIGHT
from autotune.outputs.curves import BOX_WIDTH, loss_chart, smoothed
from autotune.verdict.courses import smooth
from autotune.verdict.parity import parity
from tests import builders


def places(path):
    return [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([^MLZ]+)", path)]


def test_the_curve_drawn_is_the_one_that_the_verdict_compares():
    losses = builders.losses(100)

    drawn = [loss for _, loss in smoothed(losses, 10)]

    assert drawn == pytest.approx(list(smooth(losses, 10)))


def test_a_mean_stands_at_the_middle_of_its_steps():
    assert smoothed((1.0, 2.0, 6.0, 1.0), 3) == ((1.0, 3.0), (2.0, 3.0))


def test_a_loss_that_is_not_a_number_is_left_out_of_the_mean():
    assert smoothed((1.0, math.nan, 3.0, math.nan), 2) == ((0.5, 1.0), (1.5, 3.0), (2.5, 3.0))


def test_curves_stay_inside_their_box():
    chart = loss_chart(builders.parity())

    for x, y in places(chart.baseline) + places(chart.tuned) + places(chart.band):
        assert 0 <= x <= BOX_WIDTH
        assert 0 <= y <= PLOT_HEIGHT


def test_short_curves_are_drawn_loss_by_loss():
    chart = loss_chart(builders.parity(steps=300))

    assert len(places(chart.baseline_raw)) == 300
    assert "the losses as they came" in chart.drawn


def test_long_curves_keep_every_extreme_and_say_what_is_drawn():
    losses = [1.0] * 2000
    losses[777] = 1.9
    chart = loss_chart(builders.parity(baseline_losses=tuple(losses), tuned_losses=(2.0,) * 2000))

    drawn = places(chart.baseline_raw)
    assert len(drawn) <= 400
    assert min(drawn, key=lambda place: place[1])[0] == pytest.approx(
        777 / 1999 * BOX_WIDTH, abs=0.1
    )
    assert "the lowest and the highest loss of every 10 steps" in chart.drawn


def test_a_gap_in_the_losses_is_a_gap_in_the_line():
    chart = loss_chart(
        builders.parity(
            baseline_losses=(1.0, 2.0, math.nan, 1.0, 2.0, 1.0), tuned_losses=(1.0,) * 6
        )
    )

    assert chart.baseline_raw.count("M") == 2
    assert "not a number: 1 loss" in chart.drawn


def test_an_outlier_does_not_flatten_the_curve():
    losses = list(builders.losses(1000))
    losses[500] = 1e6
    chart = loss_chart(
        builders.parity(baseline_losses=builders.losses(1000), tuned_losses=tuple(losses))
    )

    assert chart is not None
    assert "outside the frame" in chart.drawn


@pytest.mark.parametrize("losses", [(), (1.0,) * 4, (math.nan,) * 9])
def test_too_few_losses_are_no_chart(losses):
    assert loss_chart(builders.parity(baseline_losses=losses, tuned_losses=losses)) is None


def test_a_flat_curve_is_drawn():
    chart = loss_chart(builders.parity(baseline_losses=(0.0,) * 5, tuned_losses=(0.0,) * 5))

    assert len(places(chart.tuned_raw)) == 5
    assert chart.table[0].difference is None


def test_the_table_shows_no_more_than_the_verdict_tells():
    baseline = [2.0 * 0.97**step for step in range(200)]  # far below a tenth of the first
    tuned = [loss + 0.004 for loss in baseline]
    found = parity(baseline, tuned, Semantics.EQUIVALENT)
    chart = loss_chart(found)

    told = found.max_relative_loss_difference
    assert told is not None and chart is not None
    shown = max(abs(row.difference) for row in chart.table)
    assert shown == pytest.approx(told, rel=0.05)
    assert chart.table[-1].difference < (chart.table[-1].tuned / chart.table[-1].baseline - 1) / 5
