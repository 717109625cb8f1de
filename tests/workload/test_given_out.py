"""What a dataset keeps and gives out in its batches is told from what is made for them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from autotune.workload.samples.given_out import given_out


@dataclass
class Note:
    """A sample of a program's, with something that training writes into it."""

    number: int
    marks: list[int] = field(default_factory=list)

    def forget(self) -> None:
        self.left = True


class Bound:
    """A batch of a program's own class."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes
        self.x = torch.zeros(len(notes), 2)


NOTES = [Note(number) for number in range(40)]
DICTS = [{"x": torch.zeros(2), "level": number} for number in range(40)]


class Kept:
    """A dataset that gives its own objects, or others."""

    def __init__(self, items: list[Any], *, anew: bool = False) -> None:
        self.items, self.anew = items, anew

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        item = self.items[index]
        if not self.anew:
            return item
        return dict(item) if isinstance(item, dict) else Note(item.number)


def found(items: list[Any], collate: Any, *, anew: bool = False) -> set[tuple[str, bool]]:
    loader: Any = DataLoader(Kept(items, anew=anew), batch_size=4, collate_fn=collate)  # type: ignore[arg-type]
    batches: Iterator[Any] = iter(loader)
    return {(at.path, at.inside) for at in given_out(next(batches))}


@pytest.mark.parametrize("collate", [list, tuple, Bound, lambda notes: {"notes": notes}])
def test_objects_that_it_keeps_are_told_by_their_attributes(collate: Any) -> None:
    assert found(NOTES, collate) == {
        ("batch.Note.number", False),
        ("batch.Note.marks", False),
        ("batch.Note.marks", True),
        ("batch.Note.left", False),
    }


def test_dicts_that_it_keeps_are_told_by_their_keys() -> None:
    assert found(DICTS, list) == {("batch['x']", False), ("batch['level']", False)}


@pytest.mark.parametrize("items", [NOTES, DICTS])
@pytest.mark.parametrize("collate", [list, Bound])
def test_those_that_are_made_for_the_batch_are_none(items: list[Any], collate: Any) -> None:
    assert found(items, collate, anew=True) == set()


def test_tensors_alone_are_none() -> None:
    assert found(DICTS, None) == set()
