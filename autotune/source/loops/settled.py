"""What stays as it is while a program trains: options that are handed on, and named as counters."""

import ast
import re
from collections.abc import Collection, Iterator

from autotune.source.calls.writes import assigned
from autotune.source.loops.condition import are_options
from autotune.source.loops.late_terms import changes_later
from autotune.source.program import Program
from autotune.source.reach import argument, calls_in, defaults_of, is_bound
from autotune.source.script import Function, Script, last_name

# Names of how far a training has come.
_PROGRESS = re.compile(
    r"(^|_)(epoch|step|iter|iteration|itr|update|round|phase|stage)(_?(i|id|idx|index|no|count))?$"
)
# What gives an option as it is, or as a number.
_AS_IT_IS = frozenset(("float", "get", "getattr", "int", "len", "max", "min"))

_Given = tuple[str, ast.expr]  # a name, and what it is given


def settled(program: Program, ran: Collection[ast.AST]) -> frozenset[str]:
    """The last names of what the program sets, or hands to its own functions, and what `ran` in its
    training sets no more. What no file sets may be a framework's, that counts.
    """
    values, moved, known = list(_handed_on(program)), set[str](), set[str]()
    for script, node in program.nodes():
        names = {last_name(at) for at in assigned(node)}
        known |= names
        match node:
            case ast.Assign(value=value) if not isinstance(value, ast.Constant):
                read = {last_name(at) for at in ast.walk(value) if isinstance(at, ast.expr)}
                given = names if _runs(script, node, ran) else set[str]()
                moved |= given & read  # `step = step + 1`
                values += [(name, value) for name in given - read]
            case _ if _runs(script, node, ran):
                moved |= names
    known = (known | {name for name, _ in values}) - {""}
    while more := {name for name, value in values if _moves(value, moved, known)} - moved:
        moved |= more
    return frozenset(known - moved)


def is_progress(side: ast.expr) -> bool:
    """Whether `side` is named as how far a training has come, and is no option."""
    return _PROGRESS.search(last_name(side).lower()) is not None and not is_option(side)


def is_option(side: ast.expr) -> bool:
    """Whether `side` is one of the options that the program was given (`args.step`)."""
    return isinstance(side, ast.Attribute) and are_options(side.value)


def _runs(script: Script, node: ast.AST, ran: Collection[ast.AST]) -> bool:
    """Whether `node` sets something while the program trains."""
    attributes = (at for at in assigned(node) if isinstance(at, ast.Attribute))
    return node in ran or any(changes_later(script, at) for at in attributes)


def _moves(value: ast.expr, moved: Collection[str], known: Collection[str]) -> bool:
    """Whether `value` may be another later: by what is `moved`, or counted and not `known`."""
    called = {call.func for call in calls_in(value)}
    if any(last_name(at) not in _AS_IT_IS for at in called):
        return True
    parts = (at for at in ast.walk(value) if isinstance(at, ast.Name | ast.Attribute))
    return any(
        last_name(at) in moved or (last_name(at) not in known and is_progress(at))
        for at in parts
        if at not in called
    )


def _handed_on(program: Program) -> Iterator[_Given]:
    """The parameters of the program's functions, and what its calls give for them."""
    functions: dict[str, list[tuple[Script, Function]]] = {}
    for script, function in program.functions():
        functions.setdefault(function.name, []).append((script, function))
    for _, call in program.calls():
        for other, function in functions.get(last_name(call.func), ()):
            yield from _given_by(call, other, function)


def _given_by(call: ast.Call, script: Script, function: Function) -> Iterator[_Given]:
    bound, defaults = is_bound(script, function), defaults_of(function)
    places = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    for name in (at.arg for at in places):
        value = argument(call, function, name, bound=bound) or defaults.get(name)
        if value is not None:
            yield name, value
