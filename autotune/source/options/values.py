"""What expressions of a program's text come out as, by the options that it is run with."""

import ast
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from autotune.source.reach import calls_in
from autotune.source.script import LOOPS, Function, last_name

UNKNOWN = object()
_THERE = object()  # something, and not None
_COMPARED: Mapping[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, others: one in others,
    ast.NotIn: lambda one, others: one not in others,
}
_MIRRORED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_OPTIONS = re.compile("arg|opt|conf|cfg|param|flag|setting")
_WORD = re.compile(r"\w+")
_PARSING = frozenset(("parse_args", "parse_known_args"))


class Values:
    """What expressions of one file come out as, by `options` and constants not `changed`."""

    def __init__(
        self,
        tree: ast.Module,
        options: Mapping[str, Any],
        changed: set[str],
        standing: Mapping[int, Mapping[str, Any]],
    ) -> None:
        self._options = options
        constants = _set_once(tree)
        self._constants = {name: value for name, value in constants if name not in changed}
        self._counters = frozenset(_counting(tree))
        self._standing = standing
        self._there = standing.get(0, {})

    def inside(self, function: Function, given: Mapping[str, Any]) -> "Values":
        """The same in `function`, which is always `given` these for its parameters."""
        there = copy(self)
        own = _stored(function)  # of another kind, though it may have the name
        outer = {name: value for name, value in self._constants.items() if name not in own}
        there._constants = {**outer, **given}
        there._counters = self._counters.union(_counting(function))
        there._there = self._standing.get(function.lineno, {})
        return there

    def counts(self, value: ast.expr) -> bool:
        """Whether `value` asks for a number that a loop counts by."""
        return any(self._is_counter(at) for at in ast.walk(value))

    def of(self, value: ast.expr) -> Any:
        """What `value` is; `UNKNOWN` where that is not known."""
        found = self._read(value)
        if found is not UNKNOWN:
            return UNKNOWN if found is _THERE else found
        match value:
            case ast.Constant(value=constant):
                found = constant
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.Constant(value=int(number) | float(number))
            ):
                found = -number
            case ast.Name(id=name):
                found = self._constants.get(name, UNKNOWN)
            case ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name):
                found = self._options.get(name, UNKNOWN)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                known = self.of(inner)
                found = known if known is UNKNOWN else not known
            case ast.BoolOp(op=operation, values=values):
                found = self._joined(isinstance(operation, ast.Or), values)
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                found = self._compared(type(operation), left, right)
        return found

    def _read(self, value: ast.expr) -> Any:
        """What `value` was where it was looked at, or `_THERE`; `UNKNOWN` where it was not."""
        if not (self._there and isinstance(value, ast.Name | ast.Attribute | ast.Subscript)):
            return UNKNOWN
        return self._there.get(ast.unparse(value), UNKNOWN)

    def _joined(self, any_of_them: bool, values: list[ast.expr]) -> Any:
        found = [self.of(each) for each in values]
        known = [bool(each) for each in found if each is not UNKNOWN]
        if any_of_them in known:
            return any_of_them
        return not any_of_them if len(known) == len(found) else UNKNOWN

    def _listed(self, value: ast.expr) -> Any:
        if not isinstance(value, ast.List | ast.Tuple | ast.Set):
            return self.of(value)
        found = [self.of(each) for each in value.elts]
        return UNKNOWN if UNKNOWN in found else found

    def _compared(self, operation: type[ast.cmpop], left: ast.expr, right: ast.expr) -> Any:
        one, other = self.of(left), self._listed(right)
        if other is None and self._read(left) is _THERE:
            return {ast.Is: False, ast.IsNot: True}.get(operation, UNKNOWN)
        if self._is_counter(left) and isinstance(other, int | float):
            return _counted_against(operation, other)
        if self._is_counter(right) and isinstance(one, int | float):
            return _counted_against(_MIRRORED.get(operation, operation), one)
        if one is UNKNOWN or other is UNKNOWN:
            return UNKNOWN
        try:
            return _COMPARED[operation](one, other)
        except TypeError:  # the program does not come there either
            return UNKNOWN

    def _is_counter(self, value: ast.AST) -> bool:
        return isinstance(value, ast.Name) and value.id in self._counters


def _counted_against(operation: type[ast.cmpop], bound: float) -> Any:
    """What each number from 0 on comes out as against `bound`; `UNKNOWN` where they differ."""
    compared = _COMPARED[operation]
    if operation not in _MIRRORED:
        return UNKNOWN
    first, last = compared(0, bound), compared(math.inf, bound)
    return first if first == last else UNKNOWN


def _counting(tree: ast.Module | Function) -> Iterator[str]:
    """The names that loops count by, from 0 or a later number on, and nothing else sets."""
    stored = _stored(tree)
    counted: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.For(
                target=ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name), *_]), iter=source
            ) if isinstance(node.target, ast.Name) == ("range" in ast.unparse(source)):
                called = {last_name(call.func) for call in calls_in(source)}
                if called & {"range", "trange", "enumerate"} and "-" not in ast.unparse(source):
                    counted[name] = counted.get(name, 0) + 1
    yield from (name for name, count in counted.items() if stored[name] == count)


def _stored(tree: ast.Module | Function) -> dict[str, int]:
    """How often a file or a function gives each name a value."""
    stored: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.alias(asname=str(name))
            ):
                stored[name] = stored.get(name, 0) + 1
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    stored[name] = stored.get(name, 0) + 2
    return stored


def _set_once(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The names that a file gives a constant, and nothing else anywhere in it."""
    stored = _stored(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                if stored[name] == 1:
                    yield name, value


def looked_at(
    values: Iterable[tuple[str, Any]], there: Iterable[str], changed: set[str]
) -> dict[str, Any]:
    """What was read in a function, by its code, but for what is `changed` later."""
    found = dict(values) | dict.fromkeys(there, _THERE)
    return {
        code: value for code, value in found.items() if changed.isdisjoint(_WORD.findall(code)[1:])
    }


def parsing(trees: Iterable[ast.Module]) -> frozenset[str]:
    """The names of what parses options: argparse's methods, and the functions that call them."""
    functions = (at for tree in trees for at in ast.walk(tree) if isinstance(at, Function))
    return _PARSING.union(
        at.name for at in functions if any(last_name(by.func) in _PARSING for by in calls_in(at))
    )


def set_later(tree: ast.Module, parsing: frozenset[str], *, made: bool) -> Iterator[str]:
    """The attributes, or items by such names, that a file may set once the program trains: those of
    objects that are `made` then, too, or only of such as are there. It does not by what is
    `parsing` options, nor where one is given what another of its name has.
    """
    for node in _done_later(tree, parsing, made):
        match node:
            case ast.Assign(targets=targets, value=value):
                same = getattr(value, "attr", getattr(value, "id", ""))
            case ast.AugAssign(target=target) | ast.For(target=target):
                targets, same = [target], ""
            case _:
                continue
        for each in (at for target in targets for at in ast.walk(target)):
            match each:
                case ast.Attribute(attr=name, ctx=ast.Store()) if name != same:
                    yield name
                case ast.Subscript(value=of, slice=ast.Constant(value=str(name)), ctx=ast.Store()):
                    if not made or _OPTIONS.search(last_name(of).lower()):
                        yield name


def _done_later(
    scope: ast.Module | Function, parsing: frozenset[str], made: bool
) -> Iterator[ast.AST]:
    """What of a scope may be done once the options are there: all of a function; of one in which
    `parsing` is called, and of a file's top, what comes from its first loop on; and what sets up an
    object only where one is `made`.
    """
    own: list[ast.AST] = []
    inner: list[Function] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            inner.append(node)
        else:
            own.append(node)
            waiting += ast.iter_child_nodes(node)
    calls = (node for node in own if isinstance(node, ast.Call))
    parses = any(last_name(call.func) in parsing for call in calls)
    first = 0.0
    if parses or isinstance(scope, ast.Module):
        loops = (node.lineno for node in own if isinstance(node, LOOPS))
        first = min(loops, default=math.inf)
    yield from (node for node in own if getattr(node, "lineno", 0) >= first)
    for function in inner:
        if made or function.name != "__init__":
            yield from _done_later(function, parsing, made)
