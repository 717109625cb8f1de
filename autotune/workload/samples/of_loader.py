"""What the samples of a DataLoader are made from and chosen by, as digests and by name."""

import inspect
import sys
from collections.abc import Iterator
from itertools import chain
from types import FunctionType
from typing import Any

import torch
from torch.utils.data import RandomSampler, SequentialSampler, WeightedRandomSampler

from autotune.workload.samples.delivery import SAMPLER
from autotune.workload.samples.kept import Piece, kept_by, pieces_of

_KNOWN = "_autotune_chosen_at_once"
_LISTS: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter(range(0))))


def kept_by_loader(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader gives samples from, and of what chooses them in an epoch."""
    return {p.path: digest for p, digest in _to_choose(loader)} | kept_to_read(loader)


def _to_choose(loader: Any) -> Iterator[tuple[Piece, int]]:
    without = (loader.dataset, *_chosen_at_once(loader))
    return pieces_of(loader._index_sampler, SAMPLER, without)


def kept_to_read(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader makes batches from: its dataset, and what collates them."""
    return kept_by(loader.collate_fn, "collate_fn") | kept_by(loader.dataset)


def pieces_to_read(loader: Any) -> dict[str, Piece]:
    """The pieces of what a DataLoader makes batches from, by path."""
    pieces = chain(pieces_of(loader.collate_fn, "collate_fn"), pieces_of(loader.dataset, "dataset"))
    return {piece.path: piece for piece, _ in pieces}


def all_pieces(loader: Any) -> dict[str, Piece]:
    """Those, and the pieces of what chooses samples while an epoch runs."""
    return {p.path: p for p, _ in _to_choose(loader)} | pieces_to_read(loader)


def numbers_to_read(loader: Any) -> dict[str, float]:
    """The numbers among them, by path."""
    return {
        path: piece.value
        for path, piece in pieces_to_read(loader).items()
        if isinstance(piece.value, (int, float)) and not isinstance(piece.value, bool)
    }


def _chosen_at_once(loader: Any) -> list[object]:
    """Those of a DataLoader's samplers that see nothing of what changes while an epoch runs.

    One of the user's is asked for the order of an epoch, once.
    """
    known: list[object] | None = vars(loader).get(_KNOWN)
    if known is None:
        outer = loader._index_sampler
        both = (outer, getattr(outer, "sampler", None))
        known = vars(loader)[_KNOWN] = [each for each in both if _draws_at_once(each)]
    return known


def _draws_at_once(sampler: Any) -> bool:
    if type(sampler) is RandomSampler:
        fewer = sampler.num_samples <= len(sampler.data_source)
        return fewer and not sampler.replacement
    if type(sampler) in (WeightedRandomSampler, SequentialSampler):
        return True
    method = inspect.getattr_static(type(sampler), "__iter__", None)
    if not isinstance(method, FunctionType) or inspect.isgeneratorfunction(method):
        return False
    try:
        return _goes_over_a_list_of_its_own(iter(sampler))
    except Exception:  # noqa: BLE001 - the program's own
        return False


def _goes_over_a_list_of_its_own(order: Any) -> bool:
    """Whether `order` goes over a list that nothing else holds, or over what cannot be changed; of
    samples or batches that cannot be, either.
    """
    if type(order) not in _LISTS:
        return False
    if any(isinstance(each, (list, torch.Tensor)) for each in _gone_over(order)):
        return False
    return type(order) is not _LISTS[0] or _references(order) <= _references(iter([0]))


def _gone_over(order: Any) -> Any:
    return order.__reduce__()[1][0]


def _references(order: Any) -> int:
    return sys.getrefcount(_gone_over(order))
