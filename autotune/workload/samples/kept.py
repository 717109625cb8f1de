"""What the samples of a dataset are made from, as digests.

What training changes of it, a worker's copy does not have; what reading changes of it, each worker
has for itself.
"""

import argparse
import functools
import gc
import inspect
import logging
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from autotune.workload.samples.asked import (
    CACHED,
    Function,
    asked,
    asks_for_settings,
    attributes,
    called_by,
    function_of,
    is_asked,
    is_users_class,
    of_the_users,
    only_asked_for,
    variables,
)
from autotune.workload.samples.digests import CONTAINERS, LOOKED_INTO, PLAIN, digest_of, items_of

_DEPTH = 4
_MOST_OBJECTS = 2000
_NO_DATA = (ModuleType, type, logging.Logger)
_DESCRIPTORS = (property, functools.cached_property, classmethod, staticmethod)
SETTINGS = (argparse.Namespace, SimpleNamespace)
_CALLED = (FunctionType, MethodType, functools.partial)
# By which a function may read any attribute, without its name.
_ANY_NAME = {"getattr", "vars", "__dict__"}
# Methods that are called without their name.
_IMPLIED = ("__len__", "__contains__", "__bool__", "__enter__", "__getattr__", "__getattribute__")

Part = tuple[str, object, object]  # its name in the whole, itself, and the owner of an attribute


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A piece of data that samples are made from, so many pieces deep in the whole, modules among
    them not counted: transforms are put together from one another.

    `part` is its name in the piece `above`: ".lam" of an attribute of `owner`, "[0]" of an item,
    "count" of a variable, "Mix.lam" of what a class, a module or a function has. It is `named`
    where a function of the user's names it, or what it is an item of.
    """

    path: str
    part: str
    value: object
    owner: object = None
    above: "Piece | None" = None
    depth: int = 0
    named: bool = False

    def inside(self, part: str, value: object, owner: object, *, named: bool) -> "Piece":
        """A piece of this one; of what is only referred to weakly, that itself."""
        value = behind(value)
        return Piece(
            path=self.path + part if part.startswith((".", "[")) else part,
            part=part,
            value=value,
            owner=owner,
            above=self,
            depth=self.depth + (not isinstance(owner, nn.Module)),
            named=named,
        )


def kept_by(dataset: object, name: str = "dataset") -> dict[str, int]:
    """A digest of each piece of data that `dataset` reads or sets when it is asked for samples:
    attributes of its own and of the objects in it, and globals, by name.

    Comparable within one process only (see `digest_of`). What processes share (shared and mapped
    memory) is left out.
    """
    return {piece.path: digest for piece, digest in pieces_of(dataset, name)}


def pieces_of(
    whole: object, name: str, without: Iterable[object] = ()
) -> Iterator[tuple[Piece, int]]:
    """The pieces of `whole` that samples are made from, each with its digest."""
    known, settings = set(map(id, without)), _Settings()
    waiting = deque([Piece(path=name, part=name, value=whole)])
    while (waiting or settings.more(waiting)) and len(known) < _MOST_OBJECTS:
        piece = waiting.popleft()
        if id(piece.value) in known or _is_one_of(_NO_DATA, piece.value):
            continue
        if not _is_one_of(PLAIN, piece.value):  # a number may be in many places
            known.add(id(piece.value))
        digest, inside = _looked_at(piece, settings)
        if digest is not None:
            yield piece, digest
        waiting += inside


class _Settings:
    """What functions that make samples have their settings in, and the program whatever else: of
    its attributes those are followed that any such function names.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._pieces: list[Piece] = []
        self._followed: set[str] = set()

    def note(self, functions: list[Function]) -> None:
        """Add what `functions`, which make samples, name."""
        for code, _ in functions:
            self._names |= attributes(code) | (variables(code) & _ANY_NAME)

    def take(self, piece: Piece) -> bool:
        """Keep `piece` where it holds settings, and say whether it does."""
        if not (piece.named and _holds_settings(piece.value)):
            return False
        self._pieces.append(piece)
        return True

    def more(self, waiting: deque[Piece]) -> bool:
        """Add to `waiting` what is named in settings and not followed yet; whether there is any."""
        for piece in self._pieces:
            parts = [piece.inside(*part, named=True) for part in self._parts(piece.value)]
            waiting += [each for each in parts if each.path not in self._followed]
            self._followed |= {each.path for each in parts}
        return bool(waiting)

    def _parts(self, value: object) -> list[Part]:
        if self._names & _ANY_NAME:
            return list(_read_by([], value))
        kind = type(value)
        methods = [inspect.getattr_static(kind, name, None) for name in (*self._names, *_IMPLIED)]
        functions = called_by([*map(function_of, methods)], kind)
        self.note(functions)
        return list(_read_by(functions, value, self._names))


def _holds_settings(value: object) -> bool:
    if isinstance(value, (*PLAIN, *CONTAINERS, *_CALLED, torch.Tensor)):
        return False
    kind = type(value)
    return kind in SETTINGS or (is_users_class(kind) and not is_asked(kind))


def _looked_at(piece: Piece, settings: _Settings) -> tuple[int | None, list[Piece]]:
    value = piece.value
    try:
        digest = digest_of(value)
        if piece.depth >= _DEPTH or settings.take(piece):
            return digest, []
        functions = functions_of(value)
        settings.note(functions)
        named = bool(functions) or (piece.named and isinstance(value, CONTAINERS))
        return digest, [piece.inside(*part, named=named) for part in _within(value, functions)]
    except Exception:  # noqa: BLE001 - an object of any library's, perhaps in another thread's hands
        return None, []


def behind(value: Any) -> Any:
    """What a weak reference or its proxy stands for; anything else is itself."""
    if issubclass(type(value), weakref.ref):  # isinstance() asks the object
        return value()
    if type(value) in weakref.ProxyTypes:
        with suppress(ReferenceError):  # it is gone
            return value.__repr__.__self__
    return value


def cached_by(function: object) -> list[object]:
    """What `functools.cache` or `lru_cache` keeps for `function`."""
    tables = [each for each in gc.get_referents(function) if type(each) is dict]
    kept = [each for table in tables if table is not vars(function) for each in table.values()]
    behind_links = gc.get_referents(*filter(_is_link, kept))  # of a cache that forgets
    return [each for each in (*kept, *behind_links) if not _is_link(each)]


def _is_link(value: object) -> bool:
    return type(value).__name__ == "_lru_list_elem"


def _is_one_of(kinds: tuple[type, ...], value: object) -> bool:
    try:
        return isinstance(value, kinds)
    except Exception:  # noqa: BLE001 - a stand-in for an object that is gone
        return False


def functions_of(value: Any) -> list[Function]:
    """The user's functions that run when `value` is called, or asked for samples."""
    if isinstance(value, functools.partial):
        return functions_of(value.func)
    if isinstance(value, (FunctionType, MethodType)):
        kind = type(getattr(value, "__self__", None))
        return called_by([function_of(getattr(value, "__func__", value))], kind)
    return asked(type(value))


def _within(value: Any, functions: list[Function]) -> Iterator[Part]:
    """What `value` makes samples from: its items, the attributes that its methods read (all of
    them, of a library's class), and the globals.
    """
    if isinstance(value, (*PLAIN, torch.Tensor)):
        return
    if isinstance(value, functools.partial):
        for name in ("func", "args", "keywords"):
            yield f".{name}", getattr(value, name), value
    elif isinstance(value, (FunctionType, MethodType)):
        if functions:
            yield from _read_by(functions, getattr(value, "__self__", None))
    elif isinstance(value, CACHED):
        yield from _numbered(cached_by(value))
    elif isinstance(value, dict):
        for key, item in islice(items_of(value), LOOKED_INTO):
            yield f"[{key!r}]", item, None
    elif isinstance(value, CONTAINERS):
        yield from _numbered(item for _, item in items_of(value))
    else:
        # A table of pandas holds its columns where Python does not look.
        yield from _numbered(getattr(getattr(value, "_mgr", None), "arrays", ()))
        yield from _read_by(functions, value)


def _numbered(items: Iterable[object]) -> Iterator[Part]:
    for index, item in zip(range(LOOKED_INTO), items, strict=False):
        yield f"[{index}]", item, None


def _read_by(
    functions: list[Function], owner: object, named: set[str] | None = None
) -> Iterator[Part]:
    """The attributes of `owner` that `functions` read or set, or that are `named` (all, where there
    are neither), those that its class has for all, the variables round them, and attributes of
    those that are none of the data themselves.
    """
    read = {name for code, _ in functions for name in attributes(code)} | (named or set())
    own, everything = _own(owner), not functions and named is None
    for name, inner in own.items():
        if name in read or (everything and not asks_for_settings(owner, name, inner)):
            yield f".{name}", inner, owner
    for kind in filter(is_users_class, () if everything else type(owner).__mro__):
        for name, inner in _data_of(kind, read - own.keys()):
            yield f".{name}", inner, owner
    for code, around in functions:
        for variable in variables(code) & around.keys():
            value = around[variable]
            settings = _settings_of(value, only_asked_for(code, variable))
            yield from ((f"{variable}.{name}", each, value) for name, each in settings)
            if settings:
                continue
            yield variable, value, None
            if of_the_users(value):
                for name, inner in _data_of(value, read):
                    yield f"{variable}.{name}", inner, value


def _settings_of(value: object, names: Set[str]) -> list[tuple[str, object]]:
    """What a model that is asked for nothing but `names` says then: its width, say. Nothing where
    one of them is more than a setting.
    """
    said = vars(value) if isinstance(value, nn.Module) else {}
    found = [(name, said[name]) for name in names & said.keys()]
    plain = all(isinstance(each, PLAIN) for _, each in found)
    return found if plain and len(found) == len(names) else []


def _own(owner: object) -> dict[str, Any]:
    """Its attributes; a module keeps those that are modules apart."""
    own: dict[str, Any] = getattr(owner, "__dict__", {})
    return own | owner._modules if isinstance(owner, nn.Module) else own


def _data_of(value: object, names: set[str]) -> list[tuple[str, object]]:
    """Those of `names` that a class, a module or a function has itself and that are data."""
    return [
        (name, inner)
        for name, inner in vars(value).items()
        if name in names and not inspect.isroutine(inner) and not isinstance(inner, _DESCRIPTORS)
    ]
