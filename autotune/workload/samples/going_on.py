"""What the samples of a map-style dataset go on with from one to the next: an iterator that is
kept, a table that numbers what is new to it, a number that changes; and the random numbers of the
process. Each worker has a copy of its own to go on with.

It is told by what is kept and by the text of the functions that make samples: the first batches
need not come to it.
"""

import ast
import dis
import functools
import inspect
import linecache
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch.utils.data import IterableDataset

from autotune.source.refusals.numbering import changed_on, numbered
from autotune.source.script import Function, first_line, tree_of
from autotune.workload.samples.asked import (
    attributes,
    called_by,
    function_of,
    is_users_class,
    variables,
)
from autotune.workload.samples.delivery import CHANGED, NUMBERED, TAKEN
from autotune.workload.samples.kept import Piece, functions_of
from autotune.workload.samples.of_loader import pieces_to_read

_STEPPING = frozenset(("next", "__next__", "len", "__len__", "pop", "popleft"))
_ASKED_OTHERWISE = ("seek", "execute", "__getitem__")
# What the modules make that has random numbers of its own.
_OF_ITS_OWN = ("Random", "SystemRandom", "default_rng", "RandomState", "Generator", "SeedSequence")
_METHODS = (MethodType, BuiltinMethodType, type(iter(()).__next__))


def goes_on_with(loader: Any) -> dict[str, str]:
    """What a DataLoader's samples go on with, by path or as it is written, each with how: it is
    `TAKEN` from, `NUMBERED` by or `CHANGED` on.
    """
    if isinstance(loader.dataset, IterableDataset):
        return {}
    pieces = list(pieces_to_read(loader).values())
    making = _functions([piece.value for piece in pieces])
    texts = [text for code in making if (text := _text_of(code)) is not None]
    return {
        **dict.fromkeys(changed_on(texts), CHANGED),
        **{name: NUMBERED for text in texts for name in numbered(text)},
        **{piece.path: NUMBERED for piece in pieces if _gives_numbers(piece.value)},
        **{piece.path: TAKEN for piece in pieces if _is_taken_from(piece, making)},
    }


def _functions(values: list[Any]) -> dict[CodeType, Any]:
    """The user's functions that run when `values` are asked for samples, or for what they lack, and
    methods of theirs that these name.
    """
    making = dict(each for value in values for each in functions_of(value))
    kinds = {kind for kind in map(type, values) if is_users_class(kind)}
    while True:
        names = {name for code in making for name in attributes(code)} | {"__missing__"}
        methods = (
            (function_of(inspect.getattr_static(kind, name, None)), kind)
            for kind in kinds
            for name in names
        )
        more = dict(each for method, kind in methods for each in called_by([method], kind))
        if more.keys() <= making.keys():
            return making
        making |= more


def _is_taken_from(piece: Piece, making: Iterable[CodeType]) -> bool:
    """Whether it is an iterator, and none that is asked otherwise, as a file, a cursor or a video
    is; of the user's, whether any is asked for its next.
    """
    kind = type(piece.value)
    otherwise = any(hasattr(kind, name) for name in _ASKED_OTHERWISE)
    if piece.above is None or otherwise or not hasattr(kind, "__next__"):
        return False
    if not is_users_class(kind):
        return True
    return any({"next", "__next__"} & (variables(code) | attributes(code)) for code in making)


def _gives_numbers(value: object) -> bool:
    """Whether it is a dict that makes what it lacks by going on with something."""
    return isinstance(value, defaultdict) and _goes_on(value.default_factory)


def _goes_on(made_by: object) -> bool:
    """Whether what `made_by` gives depends on how often it, or anything else, was asked."""
    if isinstance(made_by, functools.partial):
        return made_by.func is next or _goes_on(made_by.func)
    if isinstance(made_by, FunctionType):
        return bool(_STEPPING & (variables(made_by.__code__) | attributes(made_by.__code__)))
    if isinstance(made_by, _METHODS):
        owner = getattr(made_by, "__self__", None)
        return owner is not None and not isinstance(owner, (ModuleType, type))
    return False


def _text_of(code: CodeType) -> Function | None:
    """The function of `code` as it is written; None where it is a part of one, or has no text."""
    found = _texts(code.co_filename)
    return next((each for line, each in found if line == code.co_firstlineno), None)


@functools.cache
def _texts(path: str) -> tuple[tuple[int, Function], ...]:
    tree = tree_of("".join(linecache.getlines(path)))
    functions = (each for each in ast.walk(tree) if isinstance(each, Function))
    return tuple((first_line(each), each) for each in functions)


def streams_of(loader: Any) -> tuple[str, ...]:
    """Of Python's ("random") and NumPy's ("numpy.random") those that the functions draw which make
    a DataLoader's batches.
    """
    pieces = pieces_to_read(loader).values()
    functions = (each for piece in pieces for each in functions_of(piece.value))
    found = {
        stream
        for code, around in functions
        for name in variables(code) & around.keys()
        for stream in _drawn(code, name, around[name])
    }
    return tuple(sorted(found))


def _drawn(code: CodeType, name: str, value: Any) -> Iterator[str]:
    numpy: Any = sys.modules.get("numpy")
    owner = getattr(value, "__self__", None)  # of `from random import random`
    module = value is random and _asks(code, name)
    if module or owner is _of_module(random.random):
        yield "random"
    if numpy is not None:
        own = owner is _of_module(numpy.random.rand)
        module = value is numpy.random and _asks(code, name)
        if own or module or (value is numpy and _asks(code, "random")):
            yield "numpy.random"


def _of_module(function: Any) -> Any:
    """What draws where a module is asked."""
    return function.__self__


def _asks(code: CodeType, name: str) -> bool:
    """Whether `code` asks `name` for more than random numbers of its own."""
    return any(
        each.argval == name and following.argval not in _OF_ITS_OWN
        for each, following in pairwise(dis.get_instructions(code))
        if each.opname.startswith("LOAD_") and following.opname.startswith("LOAD_")
    )
