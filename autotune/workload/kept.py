"""What the samples of a dataset are made from, as digests.

What training changes of it, a worker's copy does not have; what reading changes of it, each worker
has for itself.
"""

import dis
import functools
import inspect
import logging
import os
import random
import sys
import zlib
from collections import ChainMap, deque
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from autotune.workload.framework import is_installed

# By which a dataset or a transform is asked for samples.
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
_DEPTH = 4
_OURS = os.path.dirname(os.path.dirname(__file__))  # our hooks stand in classes for a while
_MOST_OBJECTS = 2000
_MOST_ITEMS = 20  # of a container that are looked into; whether it holds others is seen of more
_MOST_COMPARED = 10_000
_MOST_CODES = 200
_LARGE_BYTES = 256 * 2**20  # of an array: every so many of its numbers are read
_PLAIN = (str, bytes, int, float, complex, type(None))
_NO_DATA = (ModuleType, type, logging.Logger)
_CONTAINERS = (list, tuple, deque, set, frozenset, dict)

Function = tuple[CodeType, Mapping[str, Any]]  # with the variables around it


def kept_by_loader(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader gives samples from, and of what chooses them."""
    chosen_by = kept_by(loader._index_sampler, "sampler", without=loader.dataset)
    return chosen_by | kept_to_read(loader)


def kept_to_read(loader: Any) -> dict[str, int]:
    """`kept_by` of what a DataLoader makes batches from: its dataset, and what collates them."""
    return kept_by(loader.collate_fn, "collate_fn") | kept_by(loader.dataset)


def kept_by(dataset: object, name: str = "dataset", without: object = None) -> dict[str, int]:
    """A digest of each piece of data that `dataset` reads when it is asked for samples: attributes
    of its own and of the objects in it, and globals, by name.

    Comparable within one process only: of containers it is which items they hold, of tensors how
    often they were written. What processes share (shared and mapped memory) is left out.
    """
    found: dict[str, int] = {}
    known = {id(without)}
    waiting: deque[tuple[str, object, int]] = deque([(name, dataset, 0)])
    while waiting and len(known) < _MOST_OBJECTS:
        path, value, depth = waiting.popleft()
        if isinstance(value, _NO_DATA) or id(value) in known:
            continue
        if not isinstance(value, _PLAIN):  # a number may be in many places
            known.add(id(value))
        digest, inside = _looked_at(value, deeper=depth < _DEPTH)
        if digest is not None:
            found[path] = digest
        waiting += [(_inside(path, part), inner, depth + 1) for part, inner in inside]
    return found


def _looked_at(value: object, *, deeper: bool) -> tuple[int | None, list[tuple[str, object]]]:
    try:
        return _digest(value), list(_within(value)) if deeper else []
    except Exception:  # noqa: BLE001 - an object of any library's, perhaps in another thread's hands
        return None, []


def _inside(path: str, name: str) -> str:
    return path + name if name.startswith((".", "[")) else name  # a global


def _digest(value: Any) -> int | None:
    """None of what is no data by itself."""
    if isinstance(value, _PLAIN):
        return hash(value)
    if isinstance(value, torch.Tensor):
        return _digest_of_tensor(value)
    if isinstance(value, nn.Module):
        return hash(tuple(map(_digest_of_tensor, (*value.parameters(), *value.buffers()))))
    if isinstance(value, _CONTAINERS):
        return _digest_of_items(value)
    found = _digest_of_numpys(value)
    return _digest_of_generator(value) if found is None else found


def _digest_of_tensor(tensor: torch.Tensor) -> int | None:
    """Where it is, and its version: each write counts that up by one."""
    if tensor.is_inference() or tensor.is_shared():
        return None
    return hash((tensor.data_ptr() if tensor.layout is torch.strided else 0, tensor._version))


def _digest_of_items(items: Any) -> int:
    held = items.values() if isinstance(items, dict) else items
    some = zip(range(_MOST_COMPARED), held, strict=False)
    return hash((len(items), *(id(item) for _, item in some)))


def _digest_of_generator(value: Any) -> int | None:
    numpy: Any = sys.modules.get("numpy")
    if isinstance(value, random.Random):
        return hash(value.getstate())
    if isinstance(value, torch.Generator):
        return hash(value.get_state().numpy().tobytes())
    if numpy and isinstance(value, numpy.random.Generator):
        return hash(repr(value.bit_generator.state))
    if numpy and isinstance(value, numpy.random.RandomState):
        _, numbers, *rest = value.get_state()
        return hash((numbers.tobytes(), *rest))
    return None


def _digest_of_numpys(value: Any) -> int | None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or isinstance(value, numpy.memmap):
        return None
    if value.dtype.hasobject:
        return _digest_of_items(value.reshape(-1))
    step = 1 + value.nbytes // _LARGE_BYTES
    if value.flags.f_contiguous:
        value = value.T
    if step > 1 and not value.flags.c_contiguous:
        return None  # it would be copied whole
    return zlib.crc32(numpy.ascontiguousarray(value.reshape(-1)[::step]).view(numpy.uint8))


def _within(value: object) -> Iterator[tuple[str, object]]:
    """What `value` makes samples from: its items, the attributes that its methods read (all of
    them, of a library's class), and the globals.
    """
    if isinstance(value, (*_PLAIN, torch.Tensor)):
        return
    if isinstance(value, (FunctionType, MethodType, functools.partial)):
        yield from _within_function(value)
    elif isinstance(value, dict):
        for key in list(value)[:_MOST_ITEMS]:
            yield f"[{key!r}]", value[key]
    elif isinstance(value, _CONTAINERS):
        for index, item in zip(range(_MOST_ITEMS), value, strict=False):
            yield f"[{index}]", item
    else:
        yield from _read_by(_asked(type(value)), value)


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
    """What `code` loads by name: "ATTR", "GLOBAL" and the like, and the name."""
    return frozenset(
        (each.opname.rpartition("_")[2], str(each.argval))
        for each in dis.get_instructions(code)
        if each.opname.startswith("LOAD_")
    )


def _attributes(code: CodeType) -> set[str]:
    return {name for kind, name in _loaded(code) if kind in ("ATTR", "METHOD")}


def _variables(code: CodeType) -> set[str]:
    """Of the module and of the functions around it."""
    return {name for kind, name in _loaded(code) if kind in ("GLOBAL", "NAME", "DEREF")}
