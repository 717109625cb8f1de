"""How much of what it has read a dataset keeps in memory."""

import functools
import operator
from collections import OrderedDict
from itertools import repeat
from typing import Any

import torch

from autotune.workload.samples.asked import asked, variables

# Asking an object of any other class how much it holds would run the user's code.
_DICTS = (dict, OrderedDict)
_WRAPPED = 3  # datasets inside one another
_MOST_TRUTHS = 1 << 24


def remembered(dataset: Any) -> dict[str, int]:
    """How much is in what may be a cache of samples, by name: dicts, lists, what `functools.cache`
    keeps, and the truths in arrays of such (`self.decoded[index] = True`), of a dataset and those
    that it wraps, of their classes, and the variables that their code reads.

    A list counts what is still empty of it, below zero: what is appended is more likely a log.
    """
    found: dict[str, int] = {}
    for _ in range(_WRAPPED):
        own, kind = getattr(dataset, "__dict__", {}), type(dataset)
        beside = _variables(kind)
        for owner, values in ((kind.__name__, own), (kind.__name__, vars(kind)), ("", beside)):
            for name, value in list(values.items()):
                if (count := _count(value)) is not None:
                    found[f"{owner}.{name}".lstrip(".")] = count
        dataset = own.get("dataset")
    return found


def _variables(kind: type) -> dict[str, Any]:
    return {
        name: around[name]
        for code, around in asked(kind)
        for name in variables(code)
        if name in around
    }


def _count(value: Any) -> int | None:
    kind = type(value)
    try:
        if kind is functools._lru_cache_wrapper:
            return int(value.cache_info().currsize)
        if kind in _DICTS:
            return sum(map(operator.is_not, value.values(), repeat(None)))
        if kind is list:
            return -sum(map(operator.is_, value, repeat(None)))
    except RuntimeError:  # another thread has changed it meanwhile
        return None
    return _truths(value)


def _truths(value: Any) -> int | None:
    """How many there are in an array or a tensor of truths."""
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("numpy", "ndarray"):
        is_short = value.dtype == bool and value.size <= _MOST_TRUTHS
        return int(value.sum()) if is_short else None
    if kind is torch.Tensor and value.dtype is torch.bool and value.numel() <= _MOST_TRUTHS:
        return int(value.sum())
    return None
