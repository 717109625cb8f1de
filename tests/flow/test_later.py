"""What trains otherwise where what it does late comes soon is not handed back."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from autotune.flow import later
from autotune.flow.later import parity_later
from autotune.knobs.knob import Config
from autotune.measurement.untimed.through import Through
from autotune.verdict.chance import CHAOTIC
from autotune.verdict.parity import Parity
from autotune.workload.window import AS_IS, Window
from tests import builders
from tests.flow.test_controls import FALLING, context_of, moved, run_of

FASTER: Config = {"optimizer": "fused"}


def course(*losses: float, skipped: int = 0) -> Through:
    windows = [
        Window(mode=AS_IS, steps=1, samples=1, seconds=0.1, losses=(loss,)) for loss in losses
    ]
    windows.append(Window(mode=AS_IS, steps=0, samples=0, seconds=0.1, skipped_steps=skipped))
    return Through(seconds=4.0, windows=tuple(windows), seen=builders.seen(device="cpu"))


def compared(
    own: Sequence[float],
    tuned: Sequence[float],
    *,
    config: Config = FASTER,
    by_chance: Sequence[float] = FALLING,
    seeds: tuple[Sequence[float], Sequence[float]] = ((), ()),
) -> Parity:
    """Losses that part, held against those of the program as it is `by_chance`, and of both with
    other `seeds`.
    """

    def start(losses: Sequence[float], seed: Sequence[float]) -> Any:
        def started(**other: Any) -> Any:
            course = seed if "reseed" in other else losses
            return run_of(*(each for at in course for each in course_of(at)))

        return started

    starts = (start(by_chance, seeds[0]), start((), seeds[1]))
    return parity_later(context_of(), config, starts, (course(*own), course(*tuned)))


def course_of(loss: float) -> tuple[Window, ...]:
    return (Window(mode=AS_IS, steps=1, samples=1, seconds=0.1, losses=(loss,)),)


def test_the_same_losses_are_the_same_training() -> None:
    assert compared(FALLING, FALLING).same_training


def test_losses_that_part_are_another_unless_chance_takes_them_as_far() -> None:
    later_on = [*FALLING[:20], *moved(0.5)[20:]]
    seeds = (moved(0.02), [*moved(0.02)[:20], *moved(0.52)[20:]])
    found = compared(FALLING, later_on, seeds=seeds)
    assert found.same_training is False and "The losses part by" in found.reason
    found = compared(FALLING, later_on, by_chance=moved(0.4))
    assert found.same_training is None and CHAOTIC in found.reason


def test_of_a_run_that_comes_further_no_more_is_compared() -> None:
    found = compared(FALLING[:30], [*FALLING[:30], math.nan])
    assert found.same_training and found.steps == 30


def test_too_few_steps_say_nothing() -> None:
    assert compared(FALLING[:9], moved(9.0)[:9]).same_training is None


def test_the_same_numbers_are_held_to_the_same_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def controls(*given: Any, **exact: Any) -> list[list[float]]:
        asked.append((given[2], exact))
        return [FALLING]

    monkeypatch.setattr(later, "controls", controls)
    config: Config = {"set_to_none": True}
    found = compared(FALLING, moved(0.01), config=config)
    assert found.same_training is False and "Step 1 has another loss" in found.reason
    assert asked == [(config, {"exact": True})]
