"""What the samples of a dataset are made from, as digests.

What training changes of it, a worker's copy does not have; what reading changes of it, each worker
has for itself.
"""

import dis
import functools
import inspect
import logging
import os
from collections import ChainMap, deque
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils.data import RandomSampler, SequentialSampler, WeightedRandomSampler

from autotune.workload.digests import CONTAINERS, LOOKED_INTO, PLAIN, digest_of
from autotune.workload.framework import is_installed

# By which a dataset or a transform is asked for samples.
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
_DEPTH = 4
_OURS = os.path.dirname(os.path.dirname(__file__))  # our hooks stand in classes for a while
_MOST_OBJECTS = 2000
_MOST_CODES = 200
_NO_DATA = (ModuleType, type, logging.Logger)

Function = tuple[CodeType, Mapping[str, Any]]  # with the variables around it


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


def kept_by(
    dataset: object, name: str = "dataset", without: Iterable[object] = ()
) -> dict[str, int]:
    """A digest of each piece of data that `dataset` reads or sets when it is asked for samples:
    attributes of its own and of the objects in it, and globals, by name.

    Comparable within one process only (see `digest_of`). What processes share (shared and mapped
    memory) is left out, as are the objects `without`.
    """
    found: dict[str, int] = {}
    known = set(map(id, without))
    waiting: deque[tuple[str, object, int]] = deque([(name, dataset, 0)])
    while waiting and len(known) < _MOST_OBJECTS:
        path, value, depth = waiting.popleft()
        if id(value) in known or _is_one_of(_NO_DATA, value):
            continue
        if not _is_one_of(PLAIN, value):  # a number may be in many places
            known.add(id(value))
        digest, inside = _looked_at(value, deeper=depth < _DEPTH)
        if digest is not None:
            found[path] = digest
        waiting += [(_inside(path, part), inner, depth + 1) for part, inner in inside]
    return found


def _looked_at(value: object, *, deeper: bool) -> tuple[int | None, list[tuple[str, object]]]:
    try:
        return digest_of(value), list(_within(value)) if deeper else []
    except Exception:  # noqa: BLE001 - an object of any library's, perhaps in another thread's hands
        return None, []


def _is_one_of(kinds: tuple[type, ...], value: object) -> bool:
    try:
        return isinstance(value, kinds)
    except Exception:  # noqa: BLE001 - a stand-in for an object that is gone
        return False


def _inside(path: str, name: str) -> str:
    return path + name if name.startswith((".", "[")) else name  # a global


def _within(value: object) -> Iterator[tuple[str, object]]:
    """What `value` makes samples from: its items, the attributes that its methods read (all of
    them, of a library's class), and the globals.
    """
    if isinstance(value, (*PLAIN, torch.Tensor)):
        return
    if isinstance(value, (FunctionType, MethodType, functools.partial)):
        yield from _within_function(value)
    elif isinstance(value, dict):
        for key in list(value)[:LOOKED_INTO]:
            yield f"[{key!r}]", value[key]
    elif isinstance(value, CONTAINERS):
        yield from _numbered(value)
    else:
        # A table of pandas holds its columns where Python does not look.
        yield from _numbered(getattr(getattr(value, "_mgr", None), "arrays", ()))
        yield from _read_by(_asked(type(value)), value)


def _numbered(items: Iterable[object]) -> Iterator[tuple[str, object]]:
    for index, item in zip(range(LOOKED_INTO), items, strict=False):
        yield f"[{index}]", item


def _within_function(value: Any) -> Iterator[tuple[str, object]]:
    """What a function or method of the user's reads, and what one is given beforehand."""
    if isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
        return
    owner = getattr(value, "__self__", None)
    called = _called_by([_function(getattr(value, "__func__", value))], type(owner))
    if called:
        yield from _read_by(called, owner)


def _read_by(functions: list[Function], owner: object) -> Iterator[tuple[str, object]]:
    """The attributes of `owner` that `functions` read (all, where there are none), and the
    variables round them.
    """
    read = {name for code, _ in functions for name in _attributes(code)}
    for name, inner in getattr(owner, "__dict__", {}).items():
        if not functions or name in read:
            yield f".{name}", inner
    for code, around in functions:
        for name in _variables(code) & around.keys():
            yield name, around[name]


def _asked(kind: type) -> list[Function]:
    """The user's functions that run when an object of `kind` is asked for samples, as far as their
    names tell.
    """
    return _called_by(
        [_function(inspect.getattr_static(kind, name, None)) for name in _ENTRIES], kind
    )


def _called_by(waiting: list[FunctionType | None], kind: type) -> list[Function]:
    """These functions, and those that they call: methods of `kind`, or by a variable's name."""
    found: dict[CodeType, Function] = {}
    while waiting and len(found) < _MOST_CODES:
        function = waiting.pop()
        if function is None or function.__code__ in found:
            continue
        around = ChainMap(_enclosed(function), function.__globals__)
        for code in _codes(function.__code__):
            found[code] = (code, around)
            own = (inspect.getattr_static(kind, name, None) for name in _attributes(code))
            others = (around.get(name) for name in _variables(code))
            waiting += [_function(each) for each in (*own, *others)]
    return list(found.values())


def _function(value: Any) -> FunctionType | None:
    """The user's function behind a method, a property or itself."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if not isinstance(value, FunctionType):
        return None
    path = value.__code__.co_filename
    return None if is_installed(path) or path.startswith(_OURS) else value


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """The variables of the functions around it."""
    found = {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def _loaded(code: CodeType) -> frozenset[tuple[str, str]]:
    """What `code` loads by name, or sets elsewhere: "ATTR", "GLOBAL" and the like, and the
    name.
    """
    return frozenset(
        (each.opname.rpartition("_")[2], str(each.argval))
        for each in dis.get_instructions(code)
        if each.opname.startswith(("LOAD_", "STORE_ATTR", "STORE_GLOBAL"))
    )


def _attributes(code: CodeType) -> set[str]:
    return {name for kind, name in _loaded(code) if kind in ("ATTR", "METHOD")}


def _variables(code: CodeType) -> set[str]:
    """Of the module and of the functions around it."""
    return {name for kind, name in _loaded(code) if kind in ("GLOBAL", "NAME", "DEREF")}
