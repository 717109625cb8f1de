"""A dataset that is told of the epoch is seen to be: workers that live on would not hear of it."""

from collections.abc import Callable

import pytest

from autotune.knobs import unobserved
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


@pytest.mark.parametrize(
    ("change", "seen"),
    [("dataset.order.reverse()", True), ("dataset.log.append(epoch)", False)],
    ids=["what samples are made from", "what they are not made from"],
)
def test_workers_that_live_on_are_not_had_where_what_they_read_is_changed(
    bench: Callable[[str], Bench], change: str, seen: bool
) -> None:
    text = table(
        "return X[self.order[index]], Y[index]", "self.order, self.log = list(range(640)), []"
    ).replace("    for x, y in loader:", f"    {change}\n    for x, y in loader:")
    made = bench(text)
    made.observe()
    config = {"num_workers": 1, "persistent_workers": True}
    run = made.start(config)
    run.window(0.0, steps=STEPS)
    missing = unobserved(config, run.seen())
    assert bool(missing) == seen


def changing(made: Bench) -> bool:
    run = made.start({})
    run.window(0.0, steps=STEPS)
    loader = run.seen().loader
    assert loader is not None
    return loader.changing
