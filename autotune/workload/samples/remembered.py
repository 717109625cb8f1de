"""How much of what it has read a dataset keeps in memory."""

import functools
import operator
from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import islice, repeat
from types import ModuleType
from typing import Any, cast

import torch

from autotune.workload.samples.asked import asked, variables

# Asking an object of any other class how much it holds would run the user's code.
_DICTS = (dict, OrderedDict)
_WRAPPED = 3  # datasets inside one another
_WRAPS = "dataset"  # what each has the next by
_MOST_TRUTHS = 1 << 24
_DEEP, _FEW = 3, 20  # so far it is looked into objects, and into containers of so many
_MOST_OBJECTS = 5000
_SOME = 16  # by so many it is told whether a dict gives numbers to what is in it
_FIRST = 4  # by so many it is told whether a list is one of objects
_MOST_ITEMS = 20_000  # of a list of objects that it is looked into


def remembered(dataset: Any) -> dict[str, int]:
    """How much is in what may be a cache of samples, by name: dicts, lists, what `functools.cache`
    keeps, and the truths in arrays of such (`self.decoded[index] = True`), of a dataset and those
    that it wraps, of their classes, of the variables that their code reads, and of the objects that
    all of these are and have (`self.transform.steps[1].cache`).

    A list counts what is still empty of it, below zero: what is appended is more likely a log. Of
    the objects in a list or a dict it counts what they have by now (`functools.cached_property`). A
    dict that gives numbers to what is in it, one after another, counts as none.
    """
    found: dict[str, int] = {}
    known: set[int] = set()
    for _ in range(_WRAPPED):
        own, kind = getattr(dataset, "__dict__", {}), type(dataset)
        beside = _variables(kind)
        for owner, values in ((kind.__name__, own), (kind.__name__, vars(kind)), ("", beside)):
            for name, value in list(values.items()):
                if name != _WRAPS:
                    found |= _counts(f"{owner}.{name}".lstrip("."), value, known)
        dataset = own.get(_WRAPS)
    return found


def _counts(name: str, value: Any, known: set[int], deep: int = _DEEP) -> dict[str, int]:
    """How much is in `value` and in what it has, but for what is `known` already."""
    if id(value) in known or len(known) > _MOST_OBJECTS:
        return {}
    known.add(id(value))
    count = _count(value)
    found = {} if count is None else {name: count}
    for part, inner in _parts(value) if deep else ():
        found |= _counts(f"{name}{part}", inner, known, deep - 1)
    return found


def _parts(value: Any) -> list[tuple[str, Any]]:
    """What an object or a class of Python's has, and a container of few, by their numbers."""
    kind = type(value)
    if kind is ModuleType:
        return []
    if kind in (list, tuple, *_DICTS):
        items = list(value.values() if kind in _DICTS else value) if len(value) <= _FEW else []
        return [(f"[{number}]", each) for number, each in enumerate(items)]
    return [(f".{name}", at) for name, at in list(_attributes(value).items())]


def _attributes(value: Any) -> Mapping[str, Any]:
    """What an object has, or a class, by their own tables: no code of the user's is run for it."""
    try:
        getter = type if issubclass(type(value), type) else object
        return cast("Mapping[str, Any]", getter.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


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
            if _numbers(value):
                return None
            there = sum(map(operator.is_not, value.values(), repeat(None)))
            return there + _in_objects(value.values())
        if kind is list:
            return _in_objects(value) - sum(map(operator.is_, value, repeat(None)))
    except RuntimeError:  # another thread has changed it meanwhile
        return None
    return _truths(value)


def _numbers(table: Mapping[Any, Any]) -> bool:
    """Whether it has numbers one after another, for words say: a vocabulary grows so, no cache."""
    first = list(islice(table.items(), _SOME))
    whole = len(first) > 1 and all(type(value) is int for _, value in first)
    names = not any(isinstance(key, int) for key, _ in first)
    return whole and names and all(at == first[0][1] + n for n, (_, at) in enumerate(first))


def _in_objects(items: Collection[Any]) -> int:
    """How many attributes they have that are not None; of many, by some of them."""
    if not any(map(_attributes, islice(items, _FIRST))):
        return 0
    apart = -(-len(items) // _MOST_ITEMS)
    some = islice(items, None, None, apart)
    return apart * sum(at is not None for each in some for at in _attributes(each).values())


def _truths(value: Any) -> int | None:
    """How many there are in an array or a tensor of truths."""
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("numpy", "ndarray"):
        is_short = value.dtype == bool and value.size <= _MOST_TRUTHS
        return int(value.sum()) if is_short else None
    if kind is torch.Tensor and value.dtype is torch.bool and value.numel() <= _MOST_TRUTHS:
        return int(value.sum())
    return None
