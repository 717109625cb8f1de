"""What samples are made from is found by what the methods of a dataset read, and changes of it are
seen.
"""

import argparse
import functools
import mmap
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from autotune.workload.samples.delivery import changed
from autotune.workload.samples.kept import kept_by
from autotune.workload.samples.of_loader import kept_by_loader

factor = [1.0]
noise = [0.0]  # a global of the same name as an attribute


class Scaled(Dataset[Any]):
    def __init__(self) -> None:
        self.data = torch.ones(8)
        self.noise = 0.1
        self.losses = torch.zeros(8)

    def __len__(self) -> int:
        return len(self.losses)

    def __getitem__(self, index: int) -> Any:
        return self.scaled(index) + self.noise

    def scaled(self, index: int) -> Any:
        return self.data[index] * sum(each for each in factor)


def test_it_is_what_the_methods_that_give_samples_read() -> None:
    assert set(kept_by(Scaled())) >= {"dataset.data", "dataset.noise", "factor"}
    assert not {"dataset.losses", "noise"} & set(kept_by(Scaled()))


def test_a_dataset_in_another_is_looked_into() -> None:
    kept = kept_by(Subset(Scaled(), [1, 2]))
    assert {"dataset.dataset.data", "dataset.indices"} <= set(kept)


class Erase(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if torch.rand(()) > self.p else 0 * x


class Composed(nn.Module):
    def __init__(self, *transforms: nn.Module) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(transforms)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x


class Transformed(Dataset[Any]):
    def __init__(self, transform: nn.Module) -> None:
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.ones(index))


def test_transforms_that_are_modules_are_looked_into_however_deep_they_lie() -> None:
    erase = Erase()
    composed = Composed(nn.Identity(), Composed(Composed(nn.Sequential(erase))))
    dataset = Transformed(composed)
    before = kept_by(dataset)
    assert kept_by(dataset) == before
    erase.p = 0.1
    assert changed(before, kept_by(dataset))


def test_the_variables_of_the_function_around_it_count() -> None:
    buffer = [1, 2]

    class Inner(Dataset[Any]):
        def __getitem__(self, index: int) -> Any:
            return buffer[index]

    dataset = Inner()
    before = kept_by(dataset)
    buffer.append(3)
    assert changed(before, kept_by(dataset)) == ("buffer",)


SCALES = [1.0]


class Defaulted(Dataset[Any]):
    def __getitem__(self, index: int, scales: list[float] = SCALES) -> Any:
        return self.drawn(index) * scales[0]

    def drawn(self, index: int, *, count: list[int] = [0]) -> int:  # noqa: B006
        count[0] += 1
        return index + count[0]


def test_what_parameters_are_that_nobody_gives_counts() -> None:
    dataset = Defaulted()
    before = kept_by(dataset)
    dataset[0]
    assert changed(before, kept_by(dataset)) == ("count=", "count=[0]")
    SCALES[0] = 2.0
    assert {"scales=", "scales=[0]"} < set(changed(before, kept_by(dataset)))


def _write(values: Any) -> None:
    values[0] = 7


CHANGES: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "a tensor": (torch.zeros(3), _write),
    "an array": (np.zeros(3), _write),
    "an array of objects": (np.array([[], "a"], dtype=object), _write),
    "a list": ([1, 2], _write),
    "a table": ({0: 1}, _write),
    "a set": ({1}, lambda values: values.add(2)),
    "Python's generator": (random.Random(0), lambda generator: generator.random()),
    "torch's generator": (torch.Generator(), lambda own: torch.rand(1, generator=own)),
    "numpy's generator": (np.random.default_rng(0), lambda generator: generator.random()),
    "numpy's older generator": (np.random.RandomState(0), lambda generator: generator.rand()),
    "a model": (
        nn.Linear(2, 2),
        lambda model: torch.optim.SGD([nn.init.ones_(model.weight)]).step(),
    ),
    "an object": (SimpleNamespace(size=1), lambda inner: setattr(inner, "size", 2)),
    "an object of a library": (
        SimpleNamespace(table=object()),
        lambda inner: setattr(inner, "table", object()),
    ),
    "a path": (SimpleNamespace(at=Path("a")), lambda inner: setattr(inner, "at", Path("b"))),
    "a number of numpy's": (
        SimpleNamespace(size=np.int64(1)),
        lambda inner: setattr(inner, "size", np.int64(2)),
    ),
    "the end of a long list": (
        [[each, each] for each in range(40_000)],
        lambda rows: rows.__setitem__(slice(30_000, None), [[each, 0] for each in range(10_000)]),
    ),
    "a table far down a list": ([{} for _ in range(99)], lambda rows: rows[70].update(label=1)),
}


@pytest.mark.parametrize(("value", "change"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_and_nothing_else(value: Any, change: Callable[[Any], object]) -> None:
    dataset = SimpleNamespace(value=value, other=torch.ones(2))
    before = kept_by(dataset)
    assert changed(before, kept_by(dataset)) == ()
    change(value)
    assert {name.split(".")[1].split("[")[0] for name in changed(before, kept_by(dataset))} == {
        "value"
    }


def test_what_processes_share_is_left_out() -> None:
    shared = torch.zeros(3).share_memory_()
    assert set(kept_by(SimpleNamespace(shared=shared))) == {"dataset"}
    memory = mmap.mmap(-1, 64)
    mapped = np.frombuffer(memory, dtype=np.uint8)[8:]
    assert set(kept_by(SimpleNamespace(mapped=mapped))) == {"dataset"}


def test_what_cannot_be_looked_at_is_passed_over() -> None:
    class Unwilling:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no")

    gone = weakref.proxy(Scaled())
    assert "dataset.size" in kept_by(SimpleNamespace(inner=Unwilling(), gone=gone, size=1))


def test_a_dataset_that_holds_itself_comes_to_an_end() -> None:
    dataset = SimpleNamespace(size=1)
    dataset.itself = [dataset]
    assert "dataset.size" in kept_by(dataset)


def test_what_collates_counts_too_with_what_is_around_it_or_given_to_it() -> None:
    settings = SimpleNamespace(mask=0.1)
    rates = [0.1]

    def around(samples: Any) -> Any:
        return samples, settings.mask

    def given(samples: Any, rates: Any) -> Any:
        return samples, rates

    class Collator:
        def __init__(self) -> None:
            self.mask = 0.1

        def collate(self, samples: Any) -> Any:
            return samples, self.mask

    collator = Collator()
    for collate, change in (
        (collator.collate, lambda: setattr(collator, "mask", 0.2)),
        (around, lambda: setattr(settings, "mask", 0.2)),
        (functools.partial(given, rates=rates), lambda: rates.append(0.2)),
    ):
        loader = DataLoader(Scaled(), collate_fn=collate)
        before = kept_by_loader(loader)
        assert not changed(before, kept_by_loader(loader))
        change()
        (name,) = changed(before, kept_by_loader(loader))
        assert "mask" in name or "rates" in name


class Config:
    """Settings, and a trainer's state beside them."""

    def __init__(self) -> None:
        self.size, self.crop, self.iteration = 4, 2, 0

    def cropped(self) -> int:
        return self.size - self.crop

    def advance(self) -> None:
        self.iteration += 1


class Resized(Scaled):
    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def __getitem__(self, index: int) -> Any:
        return self.data[index : index + self.settings.size]


class Cropped(Resized):
    def __getitem__(self, index: int) -> Any:
        return self.data[index : index + self.settings.cropped()]


class Looking(Resized):
    def __getitem__(self, index: int) -> Any:
        return self.data[index], getattr(self.settings, "iteration")  # noqa: B009


@pytest.mark.parametrize("settings", [Config(), argparse.Namespace(size=4, iteration=0)])
def test_of_settings_only_what_samples_are_made_from_counts(settings: Any) -> None:
    dataset = Resized(settings)
    before = kept_by(dataset)
    settings.iteration = 7
    assert changed(before, kept_by(dataset)) == ()
    settings.size = 8
    assert changed(before, kept_by(dataset)) == ("dataset.settings.size",)


def test_what_a_method_of_the_settings_reads_counts() -> None:
    dataset = Cropped(Config())
    before = kept_by(dataset)
    dataset.settings.advance()
    assert changed(before, kept_by(dataset)) == ()
    dataset.settings.crop = 1
    assert changed(before, kept_by(dataset)) == ("dataset.settings.crop",)


def test_settings_that_are_read_by_any_name_count_all() -> None:
    dataset = Looking(Config())
    before = kept_by(dataset)
    dataset.settings.advance()
    assert changed(before, kept_by(dataset)) == ("dataset.settings.iteration",)


def test_settings_that_are_given_to_another_function_count_by_what_that_reads() -> None:
    def size(settings: Any) -> Any:
        return settings[0].size

    def collate(samples: Any, settings: Any) -> Any:
        return samples, size(settings)

    settings = argparse.Namespace(size=4, iteration=0)
    loader = DataLoader(Scaled(), collate_fn=functools.partial(collate, settings=[settings]))
    before = kept_by_loader(loader)
    settings.iteration = 7
    assert not changed(before, kept_by_loader(loader))
    settings.size = 8
    assert changed(before, kept_by_loader(loader))


class ByWeight:
    """Chooses harder samples more often."""

    def __init__(self) -> None:
        self.weights, self.order = torch.ones(8), list(range(8))

    def __len__(self) -> int:
        return 8

    def drawn(self) -> list[int]:
        return [int(each) for each in torch.multinomial(self.weights, 8, replacement=True)]


class AtOnce(ByWeight):
    def __iter__(self) -> Any:
        return iter(self.drawn())


class MeanWhile(ByWeight):
    def __iter__(self) -> Any:
        for _ in range(8):
            yield self.drawn()[0]


class Kept(ByWeight):
    def __iter__(self) -> Any:
        self.order[:] = self.drawn()
        return iter(self.order)


@pytest.mark.parametrize(("sampler", "counts"), [(AtOnce, False), (MeanWhile, True), (Kept, True)])
@pytest.mark.parametrize("batched", [True, False])
def test_a_sampler_that_has_chosen_an_epoch_does_not_see_what_changes_in_it(
    sampler: Any, counts: bool, batched: bool
) -> None:
    own = sampler()
    loader = DataLoader(Scaled(), sampler=own, batch_size=2 if batched else None)
    before = kept_by_loader(loader)
    own.weights[3] = 9.0
    assert any("weights" in name for name in changed(before, kept_by_loader(loader))) is counts
