"""What a loader gives without workers that is not for workers to make."""

import pytest

from autotune.measurement.untimed.shared import not_for_workers
from autotune.workload.samples.delivery import INITIAL_SEED, Delivery

ONE, TWO, THREE = (((1,),), ((2,),), ((3,),))


@pytest.mark.parametrize(
    ("seeded", "again", "refused"),
    [
        ("a.py:3", (ONE, TWO), True),
        ("a.py:3", (ONE,), True),  # fewer, for there was no more time
        ("a.py:3", (ONE, TWO, THREE), True),
        ("a.py:3", (ONE, THREE), False),  # a stream of random numbers
        ("", (ONE, TWO), False),
    ],
)
def test_samples_made_by_a_seed_are_others_in_workers(
    seeded: str, again: tuple[tuple[tuple[int, ...], ...], ...], refused: bool
) -> None:
    asked = {INITIAL_SEED: seeded} if seeded else {}
    own = Delivery(batches=(ONE, TWO), ended=False, asked=asked)
    why = not_for_workers(own, Delivery(batches=again, ended=False, asked=asked))
    assert ("samples may be others" in why and "a.py:3" in why) == refused


def test_memory_that_is_filled_anew_is_refused_too() -> None:
    torn = Delivery(batches=(ONE,), ended=False, overwritten=True)
    assert "batches may be torn" in not_for_workers(torn, torn)
