import math

import pytest

from autotune.diagnosis.finding import end
from autotune.outputs import wording
from autotune.verdict import Ratio
from tests import builders


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.01234, "0.0123"),
        (4.567, "4.57"),
        (412.3, "412"),
        (12345.6, "12,346"),
        (8.0, "8"),
        (-2.5, "-2.50"),
        (0.0, "0"),
        (None, "not measured"),
        (math.nan, "not measured"),
        (math.inf, "not measured"),
    ],
)
def test_a_number_has_three_significant_digits(number, text):
    assert wording.significant(number) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.71, "71 %"),
        (0.004, "0.4 %"),
        (0.0, "0 %"),
        (0.00001, "< 0.1 %"),
        (-0.0004, "> -0.1 %"),
        (-0.004, "-0.4 %"),
        (None, "not measured"),
    ],
)
def test_a_share_is_never_rounded_to_none(share, text):
    assert wording.percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (24e-6, "24 µs"),
        (0.0183, "18.3 ms"),
        (4.21, "4.21 s"),
        (61.8, "61.8 s"),
        (210.0, "3.5 min"),
        (9000.0, "2.5 h"),
        (0.0, "0 s"),
        (None, "not measured"),
    ],
)
def test_a_time_has_the_unit_that_fits(seconds, text):
    assert wording.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (356 << 20, "356 MiB"),
        (8 << 30, "8 GiB"),
        (None, "not measured"),
    ],
)
def test_bytes_have_the_unit_that_fits(count, text):
    assert wording.size(count) == text


def test_a_ratio_has_a_true_multiplication_sign():
    assert [wording.ratio(each) for each in (2.311, 12.34, None)] == [
        "2.31×",
        "12.3×",
        "not measured",
    ]


@pytest.mark.parametrize(
    ("gain", "text"),
    [(2.311, "2.31×"), (1.01, "1.01×"), (0.81, "would gain nothing"), (None, "not measured")],
)
def test_a_ceiling_below_one_gains_nothing(gain, text):
    assert wording.ceiling(gain) == text


@pytest.mark.parametrize(
    ("speedup", "text"),
    [(1.56, "1.56× faster"), (0.98, "not faster, 0.98× the speed"), (1.0, "not faster")],
)
def test_only_what_is_faster_is_called_so(speedup, text):
    assert wording.faster(speedup).startswith(text)


def test_one_validation_tells_no_share_but_by_an_epoch_s_length():
    one = {"windows": (builders.window(validations=1, validation_seconds=4.0),)}
    one |= {"validation_share": 0.24, "startup_seconds": 3.0, "step_seconds": 0.1}
    assert wording.outside(builders.profile(**one)).startswith(
        "Validation takes 39 % of the time, supposing one an epoch"
    )
    no_loader = builders.seen(loader=None)
    assert wording.outside(builders.profile(**one, seen=no_loader)).startswith(
        "What it does between its steps took 4.0 s while it was profiled, and may come seldom"
    )


def test_what_takes_notable_time_outside_the_loop_is_said():
    quiet = {"validation_share": 0.04, "startup_seconds": 3.0}

    assert wording.outside(builders.profile(**quiet)) == ""
    often = {"validation_share": 0.23, "windows": (builders.window(validations=3),)}
    assert wording.outside(builders.profile(**quiet | often)) == (
        "Validation took 23 % of the observed run: that is outside these figures."
    )
    later = {"startup_seconds": 3.0, "seen": builders.seen(passed_loops=1)}
    assert wording.outside(builders.profile(**quiet | later)).startswith(
        "The start, with 1 training loop that ended soon, takes 3 s: that is outside"
    )
    assert "The start takes 14 s: that is outside" in wording.outside(
        builders.profile(**quiet | {"startup_seconds": 14.0})
    )


def test_what_a_start_compiles_is_told_from_what_each_takes():
    said = wording.outside(
        builders.profile(validation_share=0.0, startup_seconds=46.0, compiling_seconds=38.0)
    )
    assert said.startswith("The start takes 46 s (38 s of it compiling): that is outside")
    assert wording.start(builders.profile(startup_seconds=46.0, compiling_seconds=1.0)) == "46 s"


def test_the_start_of_a_short_program_is_notable_sooner():
    assert "The start takes 3 s" in wording.outside(
        builders.profile(validation_share=0.0, startup_seconds=3.0, ended_early=True)
    )


def test_an_interval_says_its_level():
    interval = Ratio(estimate=2.0, low=1.9, high=2.1, confidence=0.95)

    assert wording.interval_text(interval) == "1.90× to 2.10×, 95 % interval"


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.0, "1.00×"), (1.0033, "1.003×"), (0.9996, "0.9996×"), (1.006, "1.01×"), (23.44, "23.4×")],
)
def test_an_end_of_an_interval_is_1_only_where_it_is(ratio, said):
    assert end(ratio) == said


def test_settings_read_as_a_person_would_say_them():
    assert wording.settings({"num_workers": 4, "pin_memory": True, "fused": False}) == (
        "num_workers 4, pin_memory on, fused off"
    )
    assert wording.settings({}) == "as it is"


def test_a_moment_reads_as_a_date():
    assert wording.moment("2026-11-21T05:25:10+01:00") == "21 November 2026, 04:25 UTC"
    assert wording.moment("some day") == "some day"


def test_one_trial_is_not_one_trials():
    assert [wording.counted(number, "trial") for number in (0, 1, 24)] == [
        "0 trials",
        "1 trial",
        "24 trials",
    ]


@pytest.mark.parametrize(
    ("low", "text"), [(1.08, "At least 1.08× faster"), (1.001, "At least as fast")]
)
def test_the_least_of_a_rough_gain_is_no_double_negative(low, text):
    assert wording.at_least(low) == text
