"""Whether parts of a batch add up to its step, by how precisely the program computes it."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.measurement.untimed.divided import vet_micro_batches
from autotune.workload.window import REHEARSE
from tests import builders


class Run:
    """Its gradients of whole and divided batches lie apart by a share."""

    def __init__(self, apart: float) -> None:
        self.apart = apart

    def window(self, seconds: float, *, steps: int, mode: str) -> Any:
        assert mode == REHEARSE
        return SimpleNamespace(losses=(1.0,) * steps)

    def seen(self) -> Any:
        return replace(builders.seen(), rehearsed=self.apart)

    def kill(self) -> None: ...


@pytest.mark.parametrize(
    ("precision", "apart", "values"),
    [
        ("fp32", 1e-4, (1, 2, 4)),
        ("fp32", 5e-3, (1,)),
        ("tf32", 5e-3, (1, 2, 4)),
        ("bf16", 5e-3, (1, 2, 4)),
        ("tf32", 0.1, (1,)),
    ],
)
def test_gradients_may_lie_apart_by_the_rounding_of_what_is_computed_in(
    precision: str, apart: float, values: tuple[int, ...]
) -> None:
    start: Any = lambda _: Run(apart)  # noqa: E731
    assert vet_micro_batches(start, precision, (1, 2, 4)).values == values


def test_gradients_that_are_no_numbers_are_not_given_a_share() -> None:
    start: Any = lambda _: Run(math.inf)  # noqa: E731
    vetted = vet_micro_batches(start, "fp32", (1, 2))
    assert "its gradients lie infinitely far apart" in vetted.reason
