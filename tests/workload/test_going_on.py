"""Iterators that samples take from are told from what is asked in another way."""

import csv
import io
import itertools
import sqlite3
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, IterableDataset

from autotune.workload.samples.going_on import goes_on_with


class Video:
    """What is read by number, and could be gone through."""

    def __getitem__(self, index: int) -> int:
        return index

    def __next__(self) -> int:
        return 1


class Turn:
    """An iterator of the program's own."""

    def __next__(self) -> int:
        return 1


class Rows(Dataset[int]):
    """A dataset that keeps something, and takes the next of it."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index if index < 7 else len(next(self.source))


class Asking(Rows):
    """One that asks it for something else."""

    def __getitem__(self, index: int) -> int:
        return index if index < 7 else self.source.at(index)


class Stream(IterableDataset[int]):
    """One that is gone through itself."""

    def __init__(self) -> None:
        self.source = iter("abc")

    def __iter__(self) -> Any:
        return self.source


@pytest.mark.parametrize(
    ("dataset", "found"),
    [
        (Rows(itertools.cycle("abc")), {"dataset.source": "taken"}),
        (Rows(letter for letter in "abc"), {"dataset.source": "taken"}),
        (Rows(csv.reader(["a,b"])), {"dataset.source": "taken"}),
        (Rows(Turn()), {"dataset.source": "taken"}),
        (Asking(Turn()), {}),
        (Rows(io.StringIO("abc")), {}),
        (Rows(sqlite3.connect(":memory:").cursor()), {}),
        (Rows(Video()), {}),
        (Stream(), {}),
    ],
)
def test_iterators(dataset: Any, found: dict[str, str]) -> None:
    assert goes_on_with(DataLoader(dataset)) == found
