import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.measurement.measurement import Failure
from autotune.outputs.charts import PLOT_HEIGHT, Bar, bar_chart, grid, stack, trial_chart
from tests import builders


def test_bars_share_one_scale_that_holds_their_intervals():
    chart = bar_chart(
        [
            Bar(label="a", amount=100.0, text=""),
            Bar(label="b", amount=150.0, text="", interval=(120.0, 200.0)),
        ]
    )

    assert [chart.percent(bar.amount) for bar in chart.bars] == [50.0, 75.0]
    assert chart.percent(200.0) == 100.0


def test_bars_of_which_none_was_measured_are_still_a_chart():
    chart = bar_chart([Bar(label="a", amount=None, text="not measured")])

    assert chart.percent(0.0) == 0.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_segments_fill_the_whole_bar(shares):
    segments = stack([(str(index), share) for index, share in enumerate(shares)], frozenset())

    if segments:
        assert sum(segment.width for segment in segments) == pytest.approx(100, abs=0.01)
        assert segments[0].start == 0


def test_the_bottleneck_stands_out():
    segments = stack([("data", 0.7), ("forward", 0.3)], frozenset({"data"}))

    assert [segment.marked for segment in segments] == [True, False]


def test_a_phase_that_took_no_time_has_no_segment():
    assert [segment.name for segment in stack([("copy", 0.0), ("data", 1.0)], frozenset())] == [
        "data"
    ]


def test_every_trial_stands_in_its_order():
    chart = trial_chart(builders.trials())

    places = sorted([*chart.points, *chart.failures], key=lambda point: point.x)
    assert [point.trial.number for point in places] == list(range(11))
    assert all(0 <= point.x <= 100 and 0 <= point.y <= PLOT_HEIGHT for point in places)


def test_the_best_so_far_only_rises_and_ends_at_the_best():
    chart = trial_chart(builders.trials())

    heights = [stretch.y for stretch in chart.best]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == min(point.y for point in chart.points)
    assert [point.trial.number for point in chart.points if point.best] == [9]


def test_the_program_as_it_is_has_its_line():
    chart = trial_chart(builders.trials())

    assert chart.baseline == chart.points[0].y


def test_a_search_in_which_all_failed_is_drawn():
    failed = Failure(kind="hung", reason="")

    chart = trial_chart([builders.trial(0, {}, failed), builders.trial(1, {"threads": 1}, failed)])

    assert chart.baseline is None
    assert chart.points == ()
    assert len(chart.failures) == 2


def test_a_single_trial_is_drawn():
    assert len(trial_chart([builders.trial(0, {}, 100.0)]).points) == 1


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_a_grid_has_a_few_lines_inside_its_range(least, span):
    greatest = least + span
    lines = grid(least, greatest)

    assert len(lines) <= 7
    assert all(math.isfinite(line) for line in lines)
    slack = 1e-6 * max(abs(least), abs(greatest), span)
    assert all(least - slack <= line <= greatest + slack for line in lines)


def test_a_grid_has_round_numbers():
    assert grid(0, 437) == (0, 100, 200, 300, 400)
