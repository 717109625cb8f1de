"""What making a batch leaves behind is told by what others could know it as."""

import random
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from autotune.workload.samples.delivery import Left, changed
from autotune.workload.samples.leaving import left_behind, noted
from autotune.workload.samples.of_loader import kept_to_read

count = 0
shares = {"lam": 1.0}
state = SimpleNamespace(lam=1.0)
generator = random.Random(0)
DATA = torch.arange(8.0)


class Mix:
    lam = 1.0


def helper() -> None:
    state.lam = random.random()


def counted(samples: Any) -> Any:
    global count  # noqa: PLW0603
    count += 1
    shares["lam"] = random.random()
    Mix.lam = random.random()
    counted.share = generator.random()  # type: ignore[attr-defined]
    helper()
    return default_collate(samples)


counted.share = 1.0  # type: ignore[attr-defined]


class Trainer:
    def __init__(self) -> None:
        self.lam = 1.0

    def collate(self, samples: Any) -> Any:
        self.lam = random.random()
        return default_collate(samples)


def left_by(collate: Any) -> Left:
    loader = DataLoader(DATA, collate_fn=collate)  # type: ignore[arg-type]
    before = kept_to_read(loader)
    makers: set[CodeType] = set()
    with noted(makers):
        for _ in loader:
            pass
    return left_behind(loader, changed(before, kept_to_read(loader)), makers)


def test_variables_and_attributes_of_what_is_no_data_itself() -> None:
    left = left_by(counted)
    variables = {each.name: each for each in left.variables}
    assert set(variables) == {"count", "shares"}  # the generator's numbers are others
    assert variables["count"].replaced and not variables["count"].by_item
    assert variables["shares"].by_item and variables["shares"].files == {__file__}
    attributes = {(each.name, *each.known_as) for each in left.attributes}
    assert attributes == {("lam", "Mix"), ("lam", "state"), ("share", "counted")}
    lines = {each.__code__.co_firstlineno for each in (helper, counted)}
    assert left.makers == {(__file__, line) for line in lines}


def test_a_variable_of_the_function_around_it() -> None:
    lam = 1.0

    def collate(samples: Any) -> Any:
        nonlocal lam
        lam = random.random()
        return default_collate(samples)

    (found,) = left_by(collate).variables
    assert (found.name, found.enclosed, found.replaced) == ("lam", True, True)


def test_attributes_of_a_trainer_that_collates() -> None:
    (found,) = left_by(Trainer().collate).attributes
    assert (found.name, found.kinds, found.collates) == ("lam", ("Trainer",), True)
    assert found.known_as == {"collate_fn"}
