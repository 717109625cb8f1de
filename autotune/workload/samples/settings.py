"""What samples are made by, which a training may change, under each name that the program has for
it.
"""

import dis
import functools
import gc
import inspect
import sys
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from autotune.source.refusals.settings import Setting
from autotune.source.refusals.whose import MODULE
from autotune.workload.places import frames
from autotune.workload.samples.asked import (
    ENTRIES,
    attributes,
    is_users,
    is_users_class,
    of_the_users,
    set_of_its_own,
)
from autotune.workload.samples.kept import SETTINGS, Piece, functions_of
from autotune.workload.samples.of_loader import all_pieces

_MOST_ARRAYS = 20
_FILLED = (list, deque, set, dict, bytearray, array, ContextVar)
_ENVIRONMENT = frozenset(("environ", "getenv"))

Memory = tuple[int, int]  # the address of its first byte, and that behind its last


def settings_of(loader: Any) -> tuple[Setting, ...]:
    """All that a DataLoader makes batches by, under each name that the program has for it."""
    pieces = list(all_pieces(loader).values())
    codes = _codes(pieces)
    keys = _texts(codes)
    replaced = (each for piece in pieces for each in (*_replaced(piece, keys), *_methods(piece)))
    return tuple(dict.fromkeys((*replaced, *_filled(pieces, keys), *_of_environment(codes))))


def set_by_makers(loader: Any) -> tuple[str, ...]:
    """The paths of what the functions that make batches give another value, ever."""
    pieces = all_pieces(loader)
    named = {
        each.argval
        for code in _codes(pieces.values())
        for each in dis.get_instructions(code)
        if each.opname.startswith("STORE_") and each.opname != "STORE_FAST"
    }
    ends = {path: each.part.rpartition(".")[2] for path, each in pieces.items()}
    return tuple(path for path, name in ends.items() if name in named)


def learning(loader: Any) -> tuple[str, ...]:
    """The paths of the models with weights, and of the optimizers and schedulers, that a DataLoader
    makes batches or chooses samples by, without the parts of such.
    """
    found = {path for path, each in all_pieces(loader).items() if _learns(each.value)}
    parts = {path for path in found if any(path.startswith(f"{at}.") for at in found)}
    return tuple(sorted(found - parts))


def _learns(value: object) -> bool:
    if isinstance(value, nn.Module):
        return next(value.parameters(), None) is not None
    return isinstance(value, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler))


def _replaced(piece: Piece, keys: frozenset[str]) -> Iterator[Setting]:
    """The names by which the program puts something else in the place of `piece`: an attribute of
    an object, a class or a module, a variable, an item of a dict whose key is among `keys`.
    """
    name = piece.part.rpartition(".")[2]
    if piece.above is None:
        return
    if piece.part.startswith("["):
        key = piece.part[2:-2]
        named = key in keys or isinstance(piece.above.owner, functools.partial)
        if isinstance(piece.above.value, dict) and named:
            yield Setting(path=piece.path, name=key)
    elif isinstance(piece.owner, ModuleType) or (piece.owner is None and name == piece.part):
        yield Setting(path=piece.path, name=name, scope=MODULE)
    elif piece.owner is not None:
        kinds = _kinds(piece.owner) or tuple(kind.__name__ for kind in _classes(piece.owner))
        setters = _setters(piece.owner, name)
        yield Setting(path=piece.path, name=name, kinds=kinds, setters=setters)


def _methods(piece: Piece) -> Iterator[Setting]:
    """The methods by which `piece`, an object of the user's, makes samples: a program may put
    another in the place of one.
    """
    kind = type(piece.value)
    names = {name for code, _ in functions_of(piece.value) for name in attributes(code)}
    for name in sorted(names | {*ENTRIES} if is_users_class(kind) else ()):
        if any(inspect.isroutine(vars(base).get(name)) for base in kind.__mro__[:-1]):
            path = f"{kind.__name__}.{name}"
            yield Setting(path=path, name=name, kinds=_kinds(piece.value))


def _of_environment(codes: Iterable[CodeType]) -> Iterator[Setting]:
    """The process's environment, where functions that make samples read it, by the texts in them:
    a worker has what it was when it began.
    """
    keys = _texts(code for code in codes if _ENVIRONMENT.intersection(code.co_names))
    if keys:
        yield Setting(path="os.environ", name="environ", scope=MODULE, inside=True, keys=keys)


def _codes(pieces: Iterable[Piece]) -> set[CodeType]:
    """Those of the functions that make samples."""
    return {code for piece in pieces for code, _ in functions_of(piece.value)}


def _texts(codes: Iterable[CodeType]) -> frozenset[str]:
    return frozenset(text for code in codes for text in code.co_consts if isinstance(text, str))


def _setters(owner: object, name: str) -> frozenset[str]:
    """The public methods of libraries' classes, and properties of any, that set the attribute
    `name` of `owner` by what they are given: methods of the user's are seen where they are called.
    What all modules of torch have is left out: every program calls `train()` and `eval()`.
    """
    methods = {
        each: getattr(method, "fset", method)
        for kind in reversed(_classes(owner))
        if kind is not nn.Module
        for each, method in vars(kind).items()
        if isinstance(method, property) or not is_users_class(kind)
    }
    return frozenset(
        each
        for each, method in methods.items()
        if not each.startswith("_") and each not in ENTRIES
        if isinstance(method, FunctionType) and method.__code__.co_argcount > 1
        if name in set_of_its_own(method.__code__)
    )


def _classes(owner: object) -> tuple[type, ...]:
    """Those of `owner`, an object or a class, without the one that all have."""
    return (owner if isinstance(owner, type) else type(owner)).__mro__[:-1]


def _kinds(owner: object) -> tuple[str, ...]:
    """The names of the user's classes among those of `owner`, an object or a class, or of what just
    has attributes.
    """
    if isinstance(owner, SETTINGS):
        return (type(owner).__name__,)
    return tuple(kind.__name__ for kind in _classes(owner) if is_users_class(kind))


def _filled(pieces: Sequence[Piece], keys: frozenset[str]) -> Iterator[Setting]:
    """The names by which the program knows an array or a container among `pieces`, or an array in
    the same memory: attributes of the user's objects, variables of their modules and of the
    functions that are running.
    """
    wanted = _Wanted(pieces, keys)
    if not wanted:
        return
    known: dict[type, bool] = {}  # of hundreds of thousands of objects
    for holder in gc.get_objects():
        kind = type(holder)
        if kind not in known:
            known[kind] = is_users_class(kind)
        if known[kind]:
            yield from wanted.among(getattr(holder, "__dict__", {}), kinds=_kinds(holder))
    modules: list[object] = list(sys.modules.values())
    for module in modules:
        if isinstance(module, ModuleType) and of_the_users(module):
            yield from wanted.among(vars(module), scope=MODULE)
    for frame in frames():
        if frame.f_code.co_name != MODULE and is_users(frame.f_code.co_filename):
            yield from wanted.among(frame.f_locals, scope=frame.f_code.co_name)


class _Wanted:
    """The arrays and containers among `pieces`; of a dict that is asked for items by name, those
    names are among `keys`.
    """

    def __init__(self, pieces: Sequence[Piece], keys: frozenset[str]) -> None:
        arrays = ((memory_of(each.value), each.path) for each in pieces)
        self._places = list(islice(((at, path) for at, path in arrays if at), _MOST_ARRAYS))
        self._containers = {
            id(each.value): (each.path, _keys_of(each.value) & keys)
            for each in pieces
            if isinstance(each.value, _FILLED)
            or getattr(each.value, "_mgr", None) is not None  # a table of pandas
        }

    def __bool__(self) -> bool:
        return bool(self._places or self._containers)

    def among(
        self, named: Mapping[str, object], *, kinds: tuple[str, ...] = (), scope: str = ""
    ) -> Iterator[Setting]:
        """Those of them that `named` has, by their names there."""
        for name, value in list(named.items()):
            nothing = frozenset[str]()
            found = [(path, nothing) for path in _sharing(memory_of(value), self._places)]
            found += [self._containers[id(value)]] if id(value) in self._containers else []
            for path, keys in found:
                yield Setting(
                    path=path, name=name, kinds=kinds, scope=scope, inside=True, keys=keys
                )


def _keys_of(value: object) -> frozenset[str]:
    keys = value if isinstance(value, dict) else ()
    return frozenset(key for key in keys if isinstance(key, str))


def _sharing(memory: Memory | None, places: Sequence[tuple[Memory, str]]) -> Iterator[str]:
    if memory is not None:
        begin, end = memory
        yield from (path for (first, behind), path in places if first < end and begin < behind)


def memory_of(value: object) -> Memory | None:
    """Where all of the memory lies that `value`, an array or a tensor on the CPU, is a part of;
    None of what is none, or what processes share.
    """
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_shared():
            return None
        storage = value.untyped_storage()
        return _from(storage.data_ptr(), storage.nbytes())
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or isinstance(value, numpy.memmap):
        return None
    whole: Any = value
    while isinstance(whole.base, numpy.ndarray):
        whole = whole.base
    return _from(whole.ctypes.data, whole.nbytes)


def _from(address: int, size: int) -> Memory | None:
    return (address, address + size) if size else None
