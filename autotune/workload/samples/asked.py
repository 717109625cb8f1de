"""The user's functions that run when samples are asked for, the names in them, and their files."""

import dis
import functools
import inspect
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

from autotune.workload.program.framework import OURS, STANDARD, is_installed

# By which a dataset or a transform is asked for samples.
ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
CACHED = (type(functools.cache(len)),)  # functions whose results are kept
_MOST_CODES = 200
_USES = ("LOAD_", "STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")

Function = tuple[CodeType, Mapping[str, Any]]  # with the variables around it


def of_the_users(value: object) -> bool:
    """Whether `value` is a class, a module or a function of the user's."""
    if isinstance(value, type):
        return is_users_class(value)
    if isinstance(value, ModuleType):
        return is_users(getattr(value, "__file__", None) or "")
    return function_of(value) is not None


def is_users_class(kind: type) -> bool:
    """Whether `kind` is defined in a file of the user's, or in a notebook."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__ == "__main__" or is_users(getattr(module, "__file__", None) or "")


def is_users(path: str) -> bool:
    """Whether code is neither Python's, nor a library's, nor ours."""
    return not (path.startswith((OURS, STANDARD, "<frozen")) or is_installed(path) or not path)


def asked(kind: type) -> list[Function]:
    """The user's functions that run when a `kind` is asked for samples, as far as names tell."""
    methods = (inspect.getattr_static(kind, name, None) for name in ENTRIES)
    return called_by([*map(function_of, methods)], kind)


def is_asked(kind: type) -> bool:
    """Whether an object of `kind` can be asked for samples, by whosever functions."""
    return any(name in vars(base) for base in kind.__mro__ for name in ENTRIES)


def called_by(waiting: list[FunctionType | None], kind: type) -> list[Function]:
    """These functions, and those that they call: methods of `kind`, or by a variable's name."""
    found: dict[CodeType, Function] = {}
    while waiting and len(found) < _MOST_CODES:
        function = waiting.pop()
        if function is None or function.__code__ in found:
            continue
        around = ChainMap(_defaults(function), _enclosed(function), function.__globals__)
        for code in _codes(function.__code__):
            found[code] = (code, around)
            own = (inspect.getattr_static(kind, name, None) for name in attributes(code))
            others = (around.get(name) for name in variables(code))
            waiting += [function_of(each) for each in (*own, *others)]
    return list(found.values())


def function_of(value: Any) -> FunctionType | None:
    """The user's function behind a method, a property or itself."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, CACHED):
        value = value.__wrapped__
    if not isinstance(value, FunctionType):
        return None
    return value if is_users(value.__code__.co_filename) else None


def _defaults(function: FunctionType) -> dict[str, Any]:
    """What its parameters are that nobody gives, as `scale=`: lists and tables stay the same."""
    values = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    last = zip(names[len(names) - len(values) :], values, strict=True)
    named = dict(last) | (function.__kwdefaults__ or {})
    return {f"{name}=": value for name, value in named.items()}


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


def files_of(values: Iterable[object]) -> tuple[str, ...]:
    """The user's files in which the code of `values` is, functions and objects, and that of the
    main module, by the names that tracebacks have for them.
    """
    main = vars(sys.modules["__main__"]).values()
    found: dict[str, None] = {}
    for value in (*values, *(each for each in main if isinstance(each, (FunctionType, type)))):
        inner = getattr(value, "func", value)  # functools.partial
        kind = inner if isinstance(inner, type) else type(inner)
        methods = (each for base in kind.__mro__ for each in vars(base).values())
        functions = map(function_of, (getattr(inner, "__func__", inner), *methods))
        found |= {each.__code__.co_filename: None for each in functions if each}
    return tuple(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def _loaded(code: CodeType) -> frozenset[tuple[str, str]]:
    """What `code` loads by name, or sets elsewhere: "ATTR", "GLOBAL" or the like, and the name."""
    return frozenset(
        (each.opname.rpartition("_")[2], str(each.argval))
        for each in dis.get_instructions(code)
        if each.opname.startswith(_USES)
    )


def attributes(code: CodeType) -> set[str]:
    """Of any object, that `code` reads or sets, or may ask for by `getattr(owner, "level")`."""
    texts = code.co_consts if "getattr" in code.co_names else ()
    named = {name for kind, name in _loaded(code) if kind in ("ATTR", "METHOD")}
    return named | {text for text in texts if isinstance(text, str)}


@functools.cache
def set_of_its_own(code: CodeType) -> frozenset[str]:
    """The attributes that a method sets of the object that it is a method of."""
    own = code.co_varnames[:1]
    return frozenset(
        str(following.argval)
        for each, following in pairwise(dis.get_instructions(code))
        if each.opname.startswith("LOAD_FAST")
        and following.opname == "STORE_ATTR"
        and (each.argval if isinstance(each.argval, tuple) else (each.argval,))[-1:] == own
    )


def variables(code: CodeType) -> set[str]:
    """Of the module and of the functions around it, and its parameters, as `scale=`."""
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = {name for kind, name in _loaded(code) if kind in ("GLOBAL", "NAME", "DEREF")}
    return names | {f"{name}=" for name in parameters}


def asks_for_settings(owner: object, name: str, value: object) -> bool:
    """Whether `owner` asks `value`, which it has under that `name`, for settings alone: so Hugging
    Face's collators do with a model that is a library's (which token its decoder begins with).
    """
    kind = type(owner)
    collates = kind.__name__.startswith("DataCollator") and not is_users_class(kind)
    return collates and name == "model" and not is_users_class(type(value))


@functools.cache
def only_asked_for(code: CodeType, variable: str) -> frozenset[str]:
    """The attributes that `code` asks `variable` for, where it does nothing else with it."""
    found = set()
    for each, following in pairwise(dis.get_instructions(code)):
        if each.argval == variable and each.opname.startswith(_USES):
            if not following.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                return frozenset()
            found.add(str(following.argval))
    return frozenset(found)
