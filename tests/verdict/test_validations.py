"""What goes by between epochs that were cut short, where settings make that longer."""

from dataclasses import replace

import pytest

from autotune.diagnosis.validation import validation_share
from autotune.measurement.ratios import Ratio
from autotune.outputs.wording import with_validations, withheld
from autotune.verdict.answer import held_to
from autotune.verdict.validations import between_epochs_in, short_validations_in, validations_in
from autotune.workload.window import Window
from tests import builders

GAIN = Ratio(estimate=1.5, low=1.4, high=1.6, confidence=0.98)


def windows(step: float, between: float, epochs: int = 4) -> list[Window]:
    """Epochs of five steps each, the first of each longer by what goes by between them."""
    steps = (step + between, *[step] * 4)
    return [builders.window(step_seconds=steps) for _ in range(epochs)]


@pytest.mark.parametrize(
    ("tuned", "epoch", "whole"),
    [
        (0.4, 0.2, 1 / (0.5 / 1.5 + 0.5 * 2)),  # as long as the epoch, and twice as long then
        (0.4, 2.0, None),  # a tenth of the time
        (0.2, 0.2, None),
        (0.4, float("inf"), None),  # nobody knows how long an epoch is
    ],
)
def test_what_settings_make_longer_between_epochs_is_counted_in(
    tuned: float, epoch: float, whole: float | None
) -> None:
    found = between_epochs_in(windows(0.01, 0.2), windows(0.007, tuned), epoch, GAIN)
    assert (found and found.whole) == (whole and pytest.approx(whole))
    if found:
        assert found.between and found.share == pytest.approx(0.5)
        assert (found.own_seconds, found.tuned_seconds) == pytest.approx((0.2, tuned))


@pytest.mark.parametrize("has_loader", [True, False])
def test_without_a_loader_they_may_be_what_it_learns_from(has_loader: bool) -> None:
    took = [builders.window(validations=4, validation_seconds=2.0)]
    found = validations_in(took, took, GAIN)
    assert found and not found.generates
    assert found.often == "as often as in its turns (4 times in 12 steps)"
    seen = builders.seen() if has_loader else replace(builders.seen(), loader=None, loaders_at=())
    found = replace(found, whole=0.98).of(seen)
    assert found.generates is not has_loader
    faster = builders.verdict(speedup=GAIN)
    slower = held_to(faster, found)
    assert ("between its steps" in slower.reason) is not has_loader
    said = "Slower validations" if has_loader else "Slower between steps"
    assert withheld(slower) == said


def test_that_they_come_once_an_epoch_is_said_to_be_supposed() -> None:
    short = [builders.window(validations=4, validation_seconds=2.0)]
    profiled = builders.profile(windows=(builders.window(validations=1, validation_seconds=8.0),))
    found = short_validations_in(short, short, validation_share(profiled), GAIN)
    said = with_validations(builders.verdict(validations=found))
    assert said.startswith("With its validations counted in, supposing one an epoch, it is ")


@pytest.mark.parametrize(("between", "epochs"), [(0.004, 200), (0.2, 1), (0.05, 4), (0.0, 50)])
def test_what_is_hardly_longer_or_came_once_says_nothing(between: float, epochs: int) -> None:
    own, tuned = windows(0.01, between, epochs), windows(0.007, 0.5, 4)
    assert between_epochs_in(own, tuned, 0.01, GAIN) is None
