"""A dataset that is told of the epoch is seen to be: workers that live on would not hear of it."""

from collections.abc import Callable

from tests.traps.conftest import Bench
from tests.traps.programs import table

STEPS = 130  # more than three epochs of 40 batches


def test_a_dataset_that_is_told_of_the_epoch_is_seen_to_change(
    bench: Callable[[str], Bench],
) -> None:
    told = table("return X[index], Y[index]").replace(
        "    for x, y in loader:", "    dataset.epoch = epoch\n    for x, y in loader:"
    )
    assert changing(bench(told))


def test_one_that_is_left_alone_is_not(bench: Callable[[str], Bench]) -> None:
    assert not changing(bench(table("return X[index], Y[index]", "self.size = 640")))


def changing(made: Bench) -> bool:
    run = made.start({})
    run.window(0.0, steps=STEPS)
    loader = run.seen().loader
    assert loader is not None
    return loader.changing
