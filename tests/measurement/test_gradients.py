"""When weights are looked at for their gradients, and when there is no time for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.measurement.untimed.gradients import vet_freed_gradients
from autotune.measurement.untimed.vetted import Vetted


def looked(found: tuple[int, int] | None, *, step_seconds: float) -> tuple[Vetted, list[int]]:
    """The answer, and how many steps were looked at."""
    asked: list[int] = []

    def watch(mode: str, *, steps: int, seconds: float) -> Any:
        asked.append(steps)
        return SimpleNamespace(found=found)

    start: Any = lambda _: SimpleNamespace(watch=watch, kill=lambda: None)  # noqa: E731
    vetted = vet_freed_gradients(
        start, (False, True), False, step_seconds=step_seconds, seconds=0.5, most_seconds=15.0
    )
    return vetted, asked


@pytest.mark.parametrize(
    ("step_seconds", "steps"), [(0.001, [30, 30]), (1.0, [15, 15]), (10.0, [])]
)
def test_slow_programs_are_looked_at_in_fewer_steps_or_not_at_all(
    step_seconds: float, steps: list[int]
) -> None:
    vetted, asked = looked((0, 0), step_seconds=step_seconds)
    assert asked == steps
    assert vetted.values == ((False, True) if steps else (False,))
    assert bool(steps) == (not vetted.reason)


def test_without_an_optimizer_nothing_is_seen() -> None:
    vetted, _ = looked(None, step_seconds=0.1)
    assert vetted.values == (False,)
    assert "no optimizer" in vetted.reason
