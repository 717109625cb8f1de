"""What a dataset keeps of what it has read is counted, and no code of the user's is run for it."""

import functools
from collections import UserDict
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch

from autotune.workload.samples.remembered import remembered

losses: dict[int, float] = {}  # what the loop keeps of each sample


@functools.cache
def load(index: int) -> int:
    return index


class Photos:
    def __init__(self) -> None:
        self.cache: dict[int, Any] = {}
        self.slots: list[Any] = [None] * 10
        self.drawn: list[int] = []
        self.decoded = np.zeros(10, dtype=bool)
        self.known = torch.zeros(10, dtype=torch.bool)
        self.pixels = np.zeros((10, 3), dtype=np.uint8)

    @functools.cache  # noqa: B019
    def title(self, index: int) -> str:
        return str(index)

    def __getitem__(self, index: int) -> int:
        self.cache[index] = self.slots[index] = load(index)
        self.decoded[index] = self.known[index] = True
        self.pixels[index] = 7
        self.drawn.append(index)
        self.title(index)
        return index


def test_what_grows_with_each_sample_is_told_by_name() -> None:
    photos = Photos()
    wrapped = SimpleNamespace(dataset=photos)
    before = remembered(wrapped)
    for index in range(5):
        photos[index]
        losses[index] = 0.5
    after = remembered(wrapped)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    caches = {"cache", "slots", "decoded", "known", "title"}
    assert grown == {**{f"Photos.{name}": 5 for name in caches}, "load": 5}


def test_a_table_that_numbers_what_it_meets_is_no_cache() -> None:
    table: dict[str, Any] = {}
    dataset = SimpleNamespace(table=table)
    for word in ["here", "is", "a", "word", "and", "another"]:
        table.setdefault(word, len(table) + 3)
    assert remembered(dataset) == {}
    table["again"] = 5  # a length, say
    assert remembered(dataset) == {"SimpleNamespace.table": 7}


class Record:
    def __init__(self, index: int) -> None:
        self.index, self.opened = index, None

    @functools.cached_property
    def decoded(self) -> int:
        return self.index

    def open(self) -> None:
        self.opened = self.opened or self  # type: ignore[assignment]


class Reader:
    pages: ClassVar[dict[int, int]] = {}

    def __init__(self) -> None:
        self.read: dict[int, int] = {}


class Archive:
    def __init__(self) -> None:
        self.records = [Record(index) for index in range(10)]
        self.by_name = {str(index): Record(index) for index in range(10)}
        self.numbers = list(range(10))
        self.reader = Reader()
        self.steps = (str, [Reader()])

    def __getitem__(self, index: int) -> int:
        self.reader.read[index] = Reader.pages[index] = self.numbers[index]
        self.by_name[str(index)].open()
        self.steps[1][0].read[index] = index  # type: ignore[index]
        return self.records[index].decoded


def test_what_the_objects_of_a_dataset_keep_is_counted() -> None:
    archive = Archive()
    before = remembered(archive)
    for index in range(5):
        assert archive[index] == index
    after = remembered(archive)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    kept = ("records", "by_name", "reader.read", "steps[1][0].read")
    assert grown == {**{f"Archive.{name}": 5 for name in kept}, "Reader.pages": 5}


def test_what_is_of_the_users_own_class_is_not_asked() -> None:
    class Store(UserDict[int, int]):
        def __len__(self) -> int:
            raise AssertionError

    assert "SimpleNamespace.store" not in remembered(SimpleNamespace(store=Store()))
