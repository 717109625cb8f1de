"""Two courses of losses scatter alike, or one of them does as with another batch size."""

import math
import random

import pytest

from autotune.verdict.courses import scatter_ratio


def pair(seed: int, *, times: float, steps: int, falls: float) -> tuple[list[float], list[float]]:
    """Losses that fall to `exp(-falls)` of the first, of the same batches; the second scatter so
    many `times` as much.
    """
    chance = random.Random(seed)
    levels = [math.exp(-falls * step / steps) for step in range(steps)]
    batches = [chance.gauss(0, 1) for _ in levels]

    def course(much: float) -> list[float]:
        own = (0.7 * batch + 0.7 * chance.gauss(0, 1) for batch in batches)
        return [level * (1 + 0.15 * much * each) for level, each in zip(levels, own, strict=True)]

    return course(1.0), course(times)


@pytest.mark.parametrize("falls", [0.0, 2.0, 5.0])
@pytest.mark.parametrize("steps", [50, 120, 200])
def test_courses_that_scatter_alike_are_not_told_apart(steps: int, falls: float) -> None:
    pairs = (pair(seed, times=1.0, steps=steps, falls=falls) for seed in range(100))
    assert sum(scatter_ratio(*each) is not None for each in pairs) <= 1


@pytest.mark.parametrize("falls", [0.0, 5.0])
@pytest.mark.parametrize("times", [math.sqrt(2), math.sqrt(0.5)])
def test_another_batch_size_is_mostly_seen_in_200_steps(times: float, falls: float) -> None:
    found = [scatter_ratio(*pair(seed, times=times, steps=200, falls=falls)) for seed in range(100)]
    told = [each for each in found if each is not None]
    assert len(told) > 70
    assert all(each > 1 if times > 1 else each < 1 for each in told)
