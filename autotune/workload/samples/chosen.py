"""Samplers that have chosen all of an epoch as that begins."""

import inspect
import sys
from types import FunctionType
from typing import Any

import torch
from torch.utils.data import RandomSampler, SequentialSampler, WeightedRandomSampler

_KNOWN = "_autotune_chosen_at_once"
_LISTS: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter(range(0))))


def chosen_at_once(loader: Any) -> list[object]:
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
