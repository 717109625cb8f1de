"""Losses that part are held against how far chance alone takes the training."""

import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow.context import Options
from autotune.flow.controls import Left, controls, pairs_of_seeds
from autotune.knobs.knob import Config
from autotune.listener import Listener
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import RunEnded
from autotune.verdict.chance import NUDGE
from autotune.workload.window import AS_IS, Window
from tests import builders

FALLING = [3.0 - 0.05 * step for step in range(40)]


def window(*losses: float) -> Window:
    return Window(mode=AS_IS, steps=len(losses), samples=1, seconds=0.1, losses=losses)


def run_of(*windows: Window, kind: str = "ended", end: Window | None = None) -> Any:
    """A run of these windows, which then ends."""
    given = iter(windows)

    def run_on(_seconds: float) -> Window:
        if (found := next(given, None)) is None:
            raise RunEnded(Failure(kind=kind, reason="It ended."), end)
        return found

    return SimpleNamespace(window=run_on, kill=lambda: None, await_first_step=lambda: None)


def context_of(**options: Any) -> Any:
    return SimpleNamespace(listener=Listener(), seconds=Options(**options).seconds)


def controlled(
    *windows: Window,
    end: Window | None = None,
    config: Config | None = None,
    own: Sequence[float] = (3.0, 2.0, 1.0),
) -> tuple[list[list[float]], list[int]]:
    """Losses of controls that each run for these windows and then end, held against the `own` of
    the program; and the streams that they read from, in another order after the first epoch where
    the config has workers that live on.
    """
    streams: list[int] = []

    def start(*, nudge: float, stream: int = 0, reorder: bool = False) -> Any:
        assert nudge == NUDGE
        assert reorder is ("persistent_workers" in (config or {}))
        streams.append(stream)
        return run_of(*windows, end=end)

    return controls(context_of(), start, config or {"threads": 1}, own, exact=False), streams


def test_a_control_is_run_for_as_many_losses() -> None:
    found = controlled(window(3.0), window(2.0), window(1.0), window(0.5))
    assert found == ([[3.0, 2.0, 1.0]], [0])


def test_a_control_that_ends_has_those_that_there_are() -> None:
    assert controlled(window(3.0), end=window(2.0)) == ([[3.0, 2.0]], [0])


@pytest.mark.parametrize("config", [{"num_workers": 2}, {"persistent_workers": True}])
def test_where_other_workers_read_several_controls_read_with_other_random_numbers(
    config: Config,
) -> None:
    found = controlled(window(3.0), window(2.0), window(1.0), config=config)
    assert found == ([[3.0, 2.0, 1.0]] * 3, [1, 2, 3])


def test_a_program_that_has_other_losses_in_each_run_has_several_controls() -> None:
    found = controlled(window(3.0), window(2.0), window(1.0), own=(1.0, 0.2, 0.1))
    assert found == ([[3.0, 2.0, 1.0]] * 3, [0, 0, 0])


def test_a_control_that_fails_is_run_again() -> None:
    runs = [run_of(kind="crashed"), run_of(*map(window, (3.0, 2.0, 1.0)))]
    found = controls(
        context_of(), lambda **_: runs.pop(0), {"threads": 1}, [3.0, 2.0, 1.0], exact=False
    )
    assert found == [[], [3.0, 2.0, 1.0]]


def test_the_controls_of_a_slow_program_have_their_share_of_the_budget_once_they_train(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    def takes(seconds: float) -> None:
        now[0] += seconds

    def slow(_seconds: float) -> Window:
        takes(40.0)
        return window(1.0)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = SimpleNamespace(window=slow, kill=lambda: None, await_first_step=lambda: takes(500.0))
    context: Any = context_of(budget_seconds=300.0)
    found = controls(context, lambda **_: run, {"threads": 1}, [1.0] * 9, exact=False)
    assert found == [[1.0, 1.0]]


def seeds(own: list[list[float]], tuned: list[list[float]]) -> list[Any]:
    """The pairs of seeds that are run where the settings' losses lie 0.3 too high."""
    begun: list[int] = []

    def start_of(courses: list[list[float]]) -> Any:
        def start(*, reseed: int) -> Any:
            begun.append(reseed)
            return run_of(window(*courses[reseed - 1]))

        return start

    higher = tuple(each + 0.3 for each in FALLING)
    parted = builders.parity(
        steps=40, baseline_losses=tuple(FALLING), tuned_losses=higher, same_training=False
    )
    left = Left(20.0)
    found = list(pairs_of_seeds(context_of(), parted, start_of(own), start_of(tuned), left))
    assert begun == [
        seed for seed, (_, beside) in enumerate(found, 1) for _ in (1, 2)[: 1 + bool(beside)]
    ]
    return found


def moved(by: float) -> list[float]:
    return [each + by for each in FALLING]


def test_other_seeds_are_run_until_it_is_known_what_they_say() -> None:
    steady, wild = [moved(0.01)] * 3, [moved(0.5)] * 3
    higher = [[each + 0.3 for each in course] for course in wild]
    lower = [[each - 0.3 for each in course] for course in wild]
    assert len(seeds(steady, [moved(0.31)] * 3)) == 2  # the settings do the same again
    assert len(seeds(steady, [moved(0.02)] * 3)) == 3
    assert len(seeds(wild, lower)) == 2
    assert len(seeds(wild, higher)) == 2


def test_where_another_seed_does_nothing_the_settings_are_not_run_with_it() -> None:
    assert seeds([FALLING], []) == [(FALLING, [])]
    lost = [FALLING[:9] + [math.nan] * 31, [], moved(0.5)]
    assert [tuned for _, tuned in seeds(lost, [[], [], moved(0.8)])] == [[], [], moved(0.8)]
