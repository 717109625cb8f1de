"""Workers that start anew with each epoch are told from those that deliver in bursts."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.diagnosis import diagnose
from autotune.knobs import by_name
from autotune.knobs.knob import Skip
from autotune.profiling.profile import Profile
from autotune.profiling.starting import starting
from autotune.workload.window import Window
from tests import builders

USUAL, FIRST, EPOCH, BATCH = 0.004, 0.24, 22, 64


def window(places: tuple[int, ...], steps: int = 66) -> Window:
    times = tuple(FIRST if place in places else USUAL for place in range(steps))
    seconds = sum(times)
    return builders.window(
        steps=steps,
        samples=steps * BATCH,
        seconds=seconds,
        step_seconds=times,
        phases={"data": seconds - steps * USUAL, "forward": steps * USUAL},
    )


def profile(windows: tuple[Window, ...], *, seen_epochs: int = 1, **loader: Any) -> Profile:
    seconds = sum(each.seconds for each in windows)
    data = sum(each.phases["data"] for each in windows) / seconds
    own = builders.seen().loader
    assert own is not None
    given = {"num_workers": 8, "batch_size": BATCH, "dataset_length": EPOCH * BATCH, **loader}
    return builders.profile(
        machine=builders.machine(device="cpu"),
        seen=builders.seen(
            loader=replace(own, epochs=seen_epochs, **given), samples_per_step=float(BATCH)
        ),
        windows=windows,
        samples_per_second=sum(each.samples for each in windows) / seconds,
        phases={"data": data, "forward": 1 - data},
    )


EPOCHS = (window((21, 43, 65)), window((4, 26, 48)))


def test_what_the_first_step_of_each_epoch_takes_longer_is_their_start() -> None:
    found = starting(profile(EPOCHS))
    assert found is not None
    assert found.seconds == pytest.approx(FIRST - USUAL)
    assert found.epoch_samples == EPOCH * BATCH
    assert found.anew
    again = starting(profile(EPOCHS, seen_epochs=5))
    assert again is not None
    assert not again.anew


@pytest.mark.parametrize("begun", [4, 2])
def test_windows_may_have_one_beginning_more_or_less_than_whole_epochs(begun: int) -> None:
    lengths = (33, 57, 61, 36, 43)  # some 3.3 epochs of 70 steps
    windows = [window((9,) if at < begun else (), steps) for at, steps in enumerate(lengths)]
    found = starting(profile(tuple(windows), dataset_length=70 * BATCH))
    assert found is not None
    assert found.seconds == pytest.approx(FIRST - USUAL)


@pytest.mark.parametrize(
    ("windows", "loader"),
    [
        ((window((7, 15, 23)), window((7, 15, 23))), {}),  # bursts
        ((window(()),), {}),
        ((window((3,), steps=20),), {}),  # not two epochs
        (EPOCHS, {"num_workers": 0}),
        (EPOCHS, {"persistent_workers": True}),
        (EPOCHS, {"dataset_length": None}),
    ],
)
def test_other_long_steps_are_none(windows: tuple[Window, ...], loader: dict[str, Any]) -> None:
    assert starting(profile(windows, **loader)) is None


def test_it_is_what_holds_the_training_back_and_how_to_mend_it_is_said() -> None:
    found = diagnose(profile(EPOCHS))[0]
    assert ", most of it for 8 workers to start anew in each epoch;" in found.headline
    assert "in each epoch of 1,408 samples takes 0.24 s" in found.evidence
    assert "Build the loader once, with persistent_workers=True, or have fewer." in found.evidence
    assert "Build the loader once" not in diagnose(profile(EPOCHS, seen_epochs=5))[0].evidence


def test_none_of_a_loader_that_is_built_anew_could_live_on() -> None:
    knob = by_name("persistent_workers")
    skipped = knob.domain(profile(EPOCHS))
    assert isinstance(skipped, Skip)
    assert "built anew for each epoch" in skipped.reason
    assert not isinstance(knob.domain(profile(EPOCHS, seen_epochs=5)), Skip)
