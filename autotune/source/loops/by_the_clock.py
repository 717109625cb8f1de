"""Where a training goes by the clock: its length, or its learning rate."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from autotune.source.calls.writes import given_or_added
from autotune.source.loops.around_training import loops_of_training
from autotune.source.loops.beginnings import ending_tests
from autotune.source.program import Program
from autotune.source.reach import decorators
from autotune.source.script import Script, last_name

_NAMES = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_CLOCKS = frozenset(
    {f"time.{name}{unit}" for name in _NAMES for unit in ("", "_ns")}
    | {f"{kind}.{name}" for kind in ("datetime.datetime", "datetime") for name in ("now", "utcnow")}
)
# What gives a time again where it is given one.
_OF_NUMBERS = frozenset({"min", "max", "float", "int", "round", "abs"})

_ASKED = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTheClock:
    """Where a condition on the clock ends the training, and where a rate is computed from it."""

    end: str = ""
    rate: str = ""


def by_the_clock(program: Program) -> ByTheClock:
    """What of the training of `program` goes by the clock, as far as its loops show it."""
    inner, outer = loops_of_training(program)
    tellers = _tellers(program)
    end = rate = ""
    for script in program.scripts.values():
        for loop in (at for at in script.nodes if at in inner or at in outer):
            times = _times(script, loop, tellers)
            ends = (test for test, _ in ending_tests(script, loop) if _asks(script, test, times))
            end = end or next(map(script.at, ends), "")
            rate = rate or next(_rates(script, loop, times), "")
    return ByTheClock(end=end, rate=rate)


def _tellers(program: Program) -> frozenset[str]:
    """The own functions that give a time, `used()` or `.used`, or (marked) whether it is time."""
    returned = [
        (script, _called(function), given.value)
        for script, function in program.nodes()
        if isinstance(function, ast.FunctionDef)
        for given in ast.walk(function)
        if isinstance(given, ast.Return) and given.value and script.function(given) is function
    ]
    times = set[str]()
    while (
        more := {
            *(name for script, name, value in returned if _is_time(script, value, times)),
            *(f"{_ASKED}{name}" for script, name, value in returned if _asks(script, value, times)),
        }
        - times
    ):  # one may ask another
        times |= more
    return frozenset(times)


def _called(function: ast.FunctionDef) -> str:
    """How its value is come by: `used()`, or `.used` of a property."""
    properties = {"property", "cached_property"} & decorators(function)
    return f".{function.name}" if properties else f"{function.name}()"


def _times(script: Script, loop: ast.AST, tellers: Collection[str]) -> set[str]:
    """The variables in the function of `loop` that hold a time, or (marked) whether it is time.
    What `loop` gives values, none of them a time, holds none there, whatever it does elsewhere.
    """
    within = {name for name, _ in _given(loop)}
    everywhere = list(_given(script.function(loop) or script.tree))
    given = [*_given(loop), *(pair for pair in everywhere if pair[0] not in within)]
    times = set(tellers)
    while more := {name for name, value in given if _is_time(script, value, times)} - times:
        times |= more
    return times | {f"{_ASKED}{name}" for name, value in given if _asks(script, value, times)}


def _is_time(script: Script, value: ast.expr, times: Collection[str]) -> bool:
    """Whether `value` is a time, or computed from one."""
    match value:
        case ast.Name() | ast.Attribute():
            return _named(value) in times
        case ast.BinOp(left=left, right=right):
            return any(_is_time(script, each, times) for each in (left, right))
        case ast.UnaryOp(operand=inner) | ast.NamedExpr(value=inner):
            return _is_time(script, inner, times)
        case ast.Call(func=ast.Attribute(value=inner, attr="total_seconds")):
            return _is_time(script, inner, times)
        case ast.Call(func=function, args=given):
            name = script.qualified(function)
            numbers = name in _OF_NUMBERS and any(_is_time(script, at, times) for at in given)
            return name in _CLOCKS or numbers or f"{last_name(function)}()" in times
    return False


def _named(node: ast.AST) -> str:
    """`lasted` of that variable, `.gone` of `clock.gone`, "" of what is neither."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return f".{name}"
    return ""


def _asks(script: Script, test: ast.expr, times: Collection[str]) -> bool:
    """Whether `test` depends on the time."""
    sides = (
        side
        for node in ast.walk(test)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
    )
    calls = (f"{last_name(node.func)}()" for node in ast.walk(test) if isinstance(node, ast.Call))
    names = map(_named, ast.walk(test))
    return any(_is_time(script, side, times) for side in sides) or any(
        f"{_ASKED}{each}" in times for each in (*calls, *names)
    )


def _rates(script: Script, loop: ast.AST, times: Collection[str]) -> Iterator[str]:
    """Where `loop` sets a learning rate that a time goes into."""
    for node in ast.walk(loop):
        match node:
            case (
                ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value="lr"))], value=value)
                | ast.AugAssign(target=ast.Subscript(slice=ast.Constant(value="lr")), value=value)
                | ast.Call(
                    func=ast.Attribute(
                        value=ast.Subscript(slice=ast.Constant(value="lr")),
                        attr="fill_" | "copy_" | "mul_",
                    ),
                    args=[value],
                )
            ):
                pass
            case _:
                continue
        known, waiting = set[str](), [value]
        while waiting:  # through the variables that it is computed from
            parts = list(ast.walk(waiting.pop()))
            if any(isinstance(at, ast.expr) and _is_time(script, at, times) for at in parts):
                yield script.at(node)
                break
            names = {at.id for at in parts if isinstance(at, ast.Name)} - known
            known |= names
            waiting += [value for name, value in _given(loop) if name in names]


def _given(scope: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The variables that are given values in `scope`, with those values."""
    pairs = (pair for node in ast.walk(scope) for pair in given_or_added(node))
    return ((target.id, value) for target, value in pairs if isinstance(target, ast.Name))
