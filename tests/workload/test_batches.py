"""Batches of every kind have digests by which their samples can be told apart."""

from collections import UserDict
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from autotune.workload.loading import batches, containers
from autotune.workload.loading.batches import count_samples, digest, split, to_device, without_last
from autotune.workload.steps.replayed import Replayed


@dataclass
class Pair:
    x: torch.Tensor
    y: list[str]


@pytest.mark.parametrize(
    "batch",
    [
        torch.arange(6).reshape(3, 2),
        torch.arange(3).to(torch.bfloat16),
        torch.eye(3).to_sparse(),
        np.arange(3),
        ["a", "b", "c"],
        {"x": torch.arange(3)},
        (torch.arange(3), ["a", "b", "c"]),
        Pair(x=torch.arange(3), y=["a", "b", "c"]),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_every_sample_has_a_digest_of_its_own(batch: Any) -> None:
    for leaf in digest(batch):
        assert len(leaf) == len(set(leaf)) == 3
    assert digest(batch) == digest(batch)


@pytest.mark.parametrize(
    ("shapes", "samples"),
    [
        ([(5000,), (5000,), (9,), (9,)], 9),  # tokens of an EmbeddingBag, offsets, topics
        ([(50, 9), (9,), (9,)], 9),  # sequences first, beside lengths and targets
        ([(300, 4), (2, 900), (9,), (10,)], 10),  # nodes, edges, targets, where graphs begin
        ([(5000,), (16,)], 16),
        ([(48, 3)], 48),
        ([()], 16),
    ],
)
def test_samples_of_a_batch_are_counted_where_it_is_incomplete(
    shapes: list[tuple[int, ...]], samples: int
) -> None:
    assert count_samples([torch.zeros(shape) for shape in shapes], 16) == samples


def test_a_value_a_type_and_a_shape_make_a_difference() -> None:
    plain = torch.zeros(2, 4)
    for other in (torch.ones(2, 4), torch.zeros(2, 4, dtype=torch.int32), torch.zeros(2, 2, 2)):
        assert digest(plain) != digest(other)


def test_how_a_tensor_lies_in_memory_makes_none() -> None:
    tensor = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert digest(tensor.t().contiguous().t()) == digest(tensor)


def test_numbers_and_empty_tensors_have_digests_too() -> None:
    assert digest(3.0) != digest(4.0)
    assert len(digest(torch.zeros(0, 3))[0]) == 1
    assert len(digest(torch.tensor(3))[0]) == 1


def test_what_is_no_data_is_left_out() -> None:
    assert digest((torch.ones(1), object())) == digest((torch.ones(1), object()))


def test_a_batch_without_its_last_sample_keeps_what_is_not_by_sample() -> None:
    x, weights = without_last((torch.arange(4), torch.ones(2)))
    assert (x.tolist(), len(weights)) == ([0, 1, 2], 2)
    assert without_last(torch.ones(1)).shape == (1,)


def test_lengths_of_packed_sequences_stay_on_the_host() -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    moved = to_device([packed, {"y": torch.ones(2)}], torch.device("meta"))
    assert moved[0].data.is_meta and moved[1]["y"].is_meta
    assert not moved[0].batch_sizes.is_meta


def test_packed_sequences_have_their_tensors_where_torch_takes_them_for_a_leaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    whole_batch = {"x": packed}
    whole = batches.tensors(whole_batch)
    monkeypatch.setattr(
        containers.pytree,
        "tree_leaves",
        lambda given, is_leaf: list(given.values() if given is whole_batch else given),
    )
    assert [each.data_ptr() for each in batches.tensors(whole_batch)] == [
        each.data_ptr() for each in whole
    ]
    assert any(each is packed.data for each in whole)


def sample() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """An image with four boxes in it."""
    return torch.zeros(3, 8, 8), {"boxes": torch.zeros(4, 4), "labels": torch.zeros(4)}


def stacked(count: int) -> torch.Tensor:
    """A feature of so many samples."""
    return torch.zeros(count, 2)


@pytest.mark.parametrize(
    ("batch", "batch_size", "samples"),
    [
        (tuple(zip(*[sample()] * 4, strict=True)), 4, 4),
        (tuple(zip(*[sample()] * 2, strict=True)), 4, 2),
        (tuple(zip(*[sample()] * 5, strict=True)), None, 5),
        ([sample()] * 4, 4, 4),
        ([sample()] * 3, 4, 3),
        ([sample()[0]] * 16, 16, 16),
        (([sample()[0]] * 5, torch.zeros(5)), None, 5),
        ({"images": [sample()[0]] * 5, "targets": [sample()[1]] * 5}, 8, 5),
        ([[stacked(5), stacked(5)], [stacked(5), stacked(5)]], 8, 5),  # two of each, stacked
        ([[stacked(5), stacked(5), stacked(5)], torch.zeros(5)], None, 5),
        ([stacked(1), torch.zeros(1)], 2, 1),
        (([sample()[0]] * 5, torch.tensor(1.0)), 8, 3),  # as many as a tensor's rows
        ([[], stacked(5)], 8, 5),
        ([(torch.zeros(90), torch.zeros(8)), (torch.zeros(70), torch.zeros(8))], 8, 8),
    ],
)
def test_samples_that_lie_in_lists_are_counted(
    batch: Any, batch_size: int | None, samples: int
) -> None:
    assert count_samples(batch, batch_size) == samples


class Encoded(UserDict[str, Any]):
    """As a tokenizer's: a mapping that is no dict, with something of its own beside it."""

    def __init__(self, data: dict[str, Any], origin: str = "text") -> None:
        super().__init__(data)
        self.origin = origin


class Fields(dict[str, Any]):
    """A dict of a class that torch does not know."""


class Rows(dict[str, Any]):
    """As torch_ac's `DictList`: an index is of the rows of its tensors."""

    __getattr__ = dict.__getitem__

    def __getitem__(self, index: Any) -> Any:
        return Rows({name: rows[index] for name, rows in self.items()})

    def __setitem__(self, index: Any, rows: Any) -> None:
        for name, value in rows.items():
            dict.__getitem__(self, name)[index] = value


def test_a_dict_may_take_rows_in_place_of_keys() -> None:
    rows = Rows(image=torch.zeros(4, 3, 8, 8), text=torch.zeros(4, 5))
    assert batches.tensors(rows) == [rows.image, rows.text]
    assert containers.taken_apart(rows)[0] == [rows]


class Read(Mapping[str, Any]):
    """A mapping that nobody can fill."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


class Kept(MutableMapping[str, Any]):
    """A mapping as people write one: a copy of it has the same dict."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name] = value

    def __delitem__(self, name: str) -> None:
        del self.data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


class Graphs:
    """As torch_geometric's: tensors lie in a store, and the samples are graphs."""

    def __init__(self, **stored: torch.Tensor) -> None:
        self._store = Encoded(stored)

    @property
    def num_graphs(self) -> int:
        return 4


def tokens() -> dict[str, Any]:
    return {"input_ids": torch.arange(12).reshape(4, 3), "scale": torch.ones(()), "name": "a"}


CONTAINERS = [
    Encoded(tokens()),
    Fields(tokens()),
    Pair(x=torch.arange(4), y=["a"] * 4),
    [Encoded(tokens()), torch.arange(4)],
    {"inner": Fields(tokens())},
]


@pytest.mark.parametrize("batch", [*CONTAINERS, Read(tokens()), Graphs(x=torch.zeros(9, 2))])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_samples_in_containers_of_other_classes_are_counted(
    batch: Any, batch_size: int | None
) -> None:
    assert count_samples(batch, batch_size) == 4
    assert batches.count_bytes(batch) > 0


@pytest.mark.parametrize("batch", CONTAINERS)
def test_containers_of_other_classes_are_split_and_moved_in_their_class(batch: Any) -> None:
    for part, share in split(batch, 2):
        assert type(part) is type(batch)
        assert (count_samples(part), share) == (2, 0.5)
    moved = to_device(batch, torch.device("meta"))
    assert type(moved) is type(batch) and all(each.is_meta for each in batches.tensors(moved))
    assert not any(each.is_meta for each in batches.tensors(batch))
    assert count_samples(without_last(batch)) == 3


def test_what_a_mapping_has_beside_its_items_stays() -> None:
    first, _ = split(Encoded(tokens(), origin="corpus"), 2)
    assert first[0].origin == "corpus" and first[0]["name"] == "a"


@pytest.mark.parametrize("batch", [Read(tokens()), Kept(tokens()), Graphs(x=torch.zeros(4, 2))])
def test_what_cannot_be_filled_anew_stays_whole(batch: Any) -> None:
    assert split(batch, 2) == [(batch, 1.0)]


@pytest.mark.parametrize("names", [("input_ids",), ("input_ids", "scale")])
def test_a_batch_that_is_not_taken_apart_is_replayed_whole(names: tuple[str, ...]) -> None:
    batch = Kept({name: tokens()[name] for name in names})
    given = Replayed(batch, torch.device("cpu")).next()
    assert isinstance(given, Kept) and list(given) == list(names)


def test_a_batch_that_cannot_be_copied_stays_whole() -> None:
    batch = MappingProxyType(tokens())
    assert split(batch, 2) == [(batch, 1.0)]


def test_a_mapping_that_was_looked_into_has_what_it_had() -> None:
    given = tokens()
    batch = Kept(dict(given))
    split(batch, 2)
    assert all(batch[name] is value for name, value in given.items())


def test_mappings_of_other_classes_differ_by_what_they_hold() -> None:
    for kind in (Encoded, Fields, Read):
        other = {**tokens(), "input_ids": torch.zeros(4, 3)}
        assert digest(kind(tokens())) != digest(kind(other))


def test_a_replayed_mapping_is_given_as_it_was_drawn() -> None:
    replayed = Replayed(Encoded(tokens()))
    first = replayed.next()
    first["input_ids"].zero_()
    first["labels"] = torch.ones(1)
    second = replayed.next()
    assert type(second) is Encoded and "labels" not in second
    assert torch.equal(second["input_ids"], tokens()["input_ids"])


def test_samples_that_are_mappings_are_counted() -> None:
    samples = [{"image": torch.zeros(3, 8, size)} for size in (8, 9, 10)]
    assert count_samples(samples) == 3
    assert count_samples([Encoded(each) for each in samples]) == 3
