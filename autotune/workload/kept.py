"""What the samples of a dataset are made from, as digests.

What training changes of it, a worker's copy does not have; what reading changes of it, each worker
has for itself.
"""

import functools
import inspect
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils.data import RandomSampler, SequentialSampler, WeightedRandomSampler

from autotune.workload.asked import (
    Function,
    asked,
    attributes,
    called_by,
    function_of,
    is_users_class,
    of_the_users,
    variables,
)
from autotune.workload.digests import CONTAINERS, LOOKED_INTO, PLAIN, digest_of

_DEPTH = 4
_MOST_OBJECTS = 2000
_NO_DATA = (ModuleType, type, logging.Logger)
_DESCRIPTORS = (property, functools.cached_property, classmethod, staticmethod)

Part = tuple[str, object, object]  # its name in the whole, itself, and the owner of an attribute


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A piece of data that samples are made from.

    `part` is its name in the piece `above`: ".lam" of an attribute of `owner`, "[0]" of an item,
    "count" of a variable, "Mix.lam" of what a class, a module or a function has.
    """

    path: str
    part: str
    value: object
    owner: object = None
    above: "Piece | None" = None
    depth: int = 0

    def inside(self, part: str, value: object, owner: object) -> "Piece":
        """A piece of this one."""
        return Piece(
            path=self.path + part if part.startswith((".", "[")) else part,
            part=part,
            value=value,
            owner=owner,
            above=self,
            depth=self.depth + 1,
        )


def kept_by_loader(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader gives samples from, and of what chooses them while an epoch
    runs.
    """
    outer = loader._index_sampler
    chosen = [each for each in (outer, getattr(outer, "sampler", None)) if _draws_at_once(each)]
    chosen_by = kept_by(outer, "sampler", without=(loader.dataset, *chosen))
    return chosen_by | kept_to_read(loader)


def _draws_at_once(sampler: object) -> bool:
    """Whether `sampler` is one of torch's that has chosen all of an epoch as that begins."""
    if type(sampler) is RandomSampler:
        fewer = sampler.num_samples <= len(sampler.data_source)
        return fewer and not sampler.replacement
    return type(sampler) in (WeightedRandomSampler, SequentialSampler)


def kept_to_read(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader makes batches from: its dataset, and what collates them."""
    return kept_by(loader.collate_fn, "collate_fn") | kept_by(loader.dataset)


def pieces_to_read(loader: Any) -> dict[str, Piece]:
    """The pieces of what a DataLoader makes batches from, by path."""
    pieces = chain(_pieces(loader.collate_fn, "collate_fn"), _pieces(loader.dataset, "dataset"))
    return {piece.path: piece for piece, _ in pieces}


def kept_by(
    dataset: object, name: str = "dataset", without: Iterable[object] = ()
) -> dict[str, int]:
    """A digest of each piece of data that `dataset` reads or sets when it is asked for samples:
    attributes of its own and of the objects in it, and globals, by name.

    Comparable within one process only (see `digest_of`). What processes share (shared and mapped
    memory) is left out, as are the objects `without`.
    """
    return {piece.path: digest for piece, digest in _pieces(dataset, name, without)}


def _pieces(
    whole: object, name: str, without: Iterable[object] = ()
) -> Iterator[tuple[Piece, int]]:
    """The pieces of `whole` that samples are made from, each with its digest."""
    known = set(map(id, without))
    waiting = deque([Piece(path=name, part=name, value=whole)])
    while waiting and len(known) < _MOST_OBJECTS:
        piece = waiting.popleft()
        if id(piece.value) in known or _is_one_of(_NO_DATA, piece.value):
            continue
        if not _is_one_of(PLAIN, piece.value):  # a number may be in many places
            known.add(id(piece.value))
        digest, inside = _looked_at(piece.value, deeper=piece.depth < _DEPTH)
        if digest is not None:
            yield piece, digest
        waiting += [piece.inside(*part) for part in inside]


def _looked_at(value: object, *, deeper: bool) -> tuple[int | None, list[Part]]:
    try:
        return digest_of(value), list(_within(value)) if deeper else []
    except Exception:  # noqa: BLE001 - an object of any library's, perhaps in another thread's hands
        return None, []


def _is_one_of(kinds: tuple[type, ...], value: object) -> bool:
    try:
        return isinstance(value, kinds)
    except Exception:  # noqa: BLE001 - a stand-in for an object that is gone
        return False


def _within(value: object) -> Iterator[Part]:
    """What `value` makes samples from: its items, the attributes that its methods read (all of
    them, of a library's class), and the globals.
    """
    if isinstance(value, (*PLAIN, torch.Tensor)):
        return
    if isinstance(value, (FunctionType, MethodType, functools.partial)):
        yield from _within_function(value)
    elif isinstance(value, dict):
        for key in list(value)[:LOOKED_INTO]:
            yield f"[{key!r}]", value[key], None
    elif isinstance(value, CONTAINERS):
        yield from _numbered(value)
    else:
        # A table of pandas holds its columns where Python does not look.
        yield from _numbered(getattr(getattr(value, "_mgr", None), "arrays", ()))
        yield from _read_by(asked(type(value)), value)


def _numbered(items: Iterable[object]) -> Iterator[Part]:
    for index, item in zip(range(LOOKED_INTO), items, strict=False):
        yield f"[{index}]", item, None


def _within_function(value: Any) -> Iterator[Part]:
    """What a function or method of the user's reads, and what one is given beforehand."""
    if isinstance(value, functools.partial):
        for name in ("func", "args", "keywords"):
            yield f".{name}", getattr(value, name), value
        return
    owner = getattr(value, "__self__", None)
    called = called_by([function_of(getattr(value, "__func__", value))], type(owner))
    if called:
        yield from _read_by(called, owner)


def _read_by(functions: list[Function], owner: object) -> Iterator[Part]:
    """The attributes of `owner` that `functions` read or set (all, where there are none), those
    that its class has for all, the variables round them, and attributes of those that are none of
    the data themselves.
    """
    read = {name for code, _ in functions for name in attributes(code)}
    own = getattr(owner, "__dict__", {})
    for name, inner in own.items():
        if not functions or name in read:
            yield f".{name}", inner, owner
    for kind in filter(is_users_class, type(owner).__mro__ if functions else ()):
        for name, inner in _data_of(kind, read - own.keys()):
            yield f".{name}", inner, owner
    for code, around in functions:
        for variable in variables(code) & around.keys():
            value = around[variable]
            yield variable, value, None
            if of_the_users(value):
                for name, inner in _data_of(value, read):
                    yield f"{variable}.{name}", inner, value


def _data_of(value: object, names: set[str]) -> list[tuple[str, object]]:
    """Those of `names` that a class, a module or a function has itself and that are data."""
    return [
        (name, inner)
        for name, inner in vars(value).items()
        if name in names and not inspect.isroutine(inner) and not isinstance(inner, _DESCRIPTORS)
    ]
