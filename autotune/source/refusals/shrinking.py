"""Where numbers that a program makes smaller again and again are asked whether they are zero."""

import ast
from collections.abc import Iterator
from itertools import pairwise

from autotune.source.program import Program, first_of
from autotune.source.reach import is_bound
from autotune.source.refusals.short_numbers import SMALLEST_NORMAL
from autotune.source.refusals.shrunk import shrunk
from autotune.source.script import (
    Function,
    Script,
    last_name,
    parameters,
    shared_names,
    stored_names,
)

# What is another for zero than for the smallest number.
_LOGARITHMS = frozenset(("log", "log2", "log10", "log_", "rsqrt", "reciprocal"))
_ASKING = _LOGARITHMS | frozenset(
    ("nonzero", "count_nonzero", "flatnonzero", "argwhere", "sign", "sgn", "any", "all", "bool")
)
# What is looked at of a tensor that is none of its numbers.
_ABOUT = frozenset(("shape", "size", "dim", "ndim", "numel", "device", "dtype", "grad"))
_LIBRARIES = frozenset(
    ("torch", "np", "numpy", "math", "cmath", "scipy", "jax", "cupy", "tf", "tensorflow", "xp")
)
_KEEPING = frozenset(("len", "clamp", "clamp_", "clamp_min", "maximum", "clip", "nan_to_num"))
# A name of a function's, or an attribute's of any object.
_Key = tuple[Function | None, str]


def asked_whether_zero(program: Program) -> str:
    """Where the program asks that of such numbers, or of others computed from them, by names."""
    text = _Text(program)
    known = {key for script, target in shrunk(program) for key in text.keys(script, target)}
    if not known:
        return ""
    text.follow(known)
    return first_of(
        (script, node)
        for script, node in text.nodes
        for asked in _asked(script, node)
        if text.mentions(script, asked, known)
    )


def _asked(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    """What `node` asks whether it is zero, or takes the logarithm of, or divides by."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            sides = pairwise((left, *others))
            for by, (one, other) in zip(operators, sides, strict=True):
                yield from [one] if _tells_zero(by, other) else []
                yield from [other] if _tells_zero(by, one) else []
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given) if name in _ASKING:
            yield from () if _is_told(script, node) else (owner, *given)
        case ast.BinOp(op=ast.Div(), right=divisor):
            yield divisor


def _tells_zero(by: ast.cmpop, other: ast.expr) -> bool:
    """Whether comparing `by` this with `other` tells zero from what is almost zero."""
    if isinstance(other, ast.UnaryOp):
        other = other.operand
    if not isinstance(other, ast.Constant):
        return isinstance(by, ast.Eq | ast.NotEq)
    return isinstance(other.value, int | float) and abs(other.value) < SMALLEST_NORMAL


def _is_told(script: Script, call: ast.Call) -> bool:
    """Whether a tracker is given it: `wandb.log(row)`; a tensor's own `log` is given nothing."""
    owners = script.qualified(call.func).split(".")[:-1]
    return bool(call.args and last_name(call.func) == "log") and _LIBRARIES.isdisjoint(owners)


class _Text:
    """The text of a program, by what is computed from what.

    Attributes:
        nodes: what computes, keeps or asks, and in which file.
    """

    def __init__(self, program: Program) -> None:
        kinds = (ast.Assign, ast.AugAssign, ast.Return, ast.Call, ast.Compare, ast.BinOp)
        self.nodes = [(script, node) for script, node in program.nodes() if isinstance(node, kinds)]
        self._functions: dict[str, list[tuple[Script, Function]]] = {}
        for script, function in program.functions():
            self._functions.setdefault(function.name, []).append((script, function))
        self._own = {
            function: {*parameters(function), *stored_names(function)} - shared_names(function)
            for functions in self._functions.values()
            for _, function in functions
        }

    def follow(self, known: set[_Key]) -> None:
        """Add the names of what is computed from what is `known`, and of functions that give it."""
        passing = [
            (script, node)
            for script, node in self.nodes
            if isinstance(node, ast.Assign | ast.Return | ast.Call)
        ]
        before = 0
        while len(known) != before:
            before = len(known)
            for script, node in passing:
                known.update(self._passed_on(script, node, known))

    def _passed_on(self, script: Script, node: ast.AST, known: set[_Key]) -> Iterator[_Key]:
        match node:
            case ast.Assign(targets=targets, value=value) if self.mentions(script, value, known):
                for target in targets:
                    for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                        yield from self.keys(script, each)
            case ast.Return(value=ast.expr() as value) if self.mentions(script, value, known):
                function = script.function(node)
                yield from [(None, function.name)] if function is not None else []
            case ast.Call(func=called, args=given) if last_name(called) in self._functions:
                for number, each in enumerate(given):
                    if self.mentions(script, each, known):
                        yield from self._parameters(last_name(called), number)

    def _parameters(self, called: str, number: int) -> Iterator[_Key]:
        """What functions of that name call their argument `number`."""
        for script, function in self._functions[called]:
            names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
            names = names[1:] if is_bound(script, function) else names
            if number < len(names):
                yield (function, names[number])

    def mentions(self, script: Script, expression: ast.expr, known: set[_Key]) -> bool:
        """Whether `known` numbers are in `expression`, and nothing is added to them."""
        match expression:
            case (
                ast.Constant()
                | ast.Compare()
                | ast.BinOp(op=ast.Add())
                | ast.Attribute(attr="grad")
            ):
                return False
            case ast.Subscript(value=owner):
                return self.mentions(script, owner, known)
            case ast.Attribute(attr=name) | ast.Call(func=ast.Attribute(attr=name)) if (
                name in _ABOUT
            ):
                return False
            case ast.Call(func=called) if last_name(called) in _KEEPING:
                return False
            case ast.Name() | ast.Attribute() if not known.isdisjoint(
                self.keys(script, expression)
            ):
                return True
        parts = (at for at in ast.iter_child_nodes(expression) if isinstance(at, ast.expr))
        return any(self.mentions(script, part, known) for part in parts)

    def keys(self, script: Script, expression: ast.expr) -> list[_Key]:
        """The names by which `expression` is known, if it is a variable or a part of one."""
        match expression:
            case ast.Attribute(value=owner, attr="data") | ast.Subscript(value=owner):
                return self.keys(script, owner)
            case ast.Attribute(attr=name) if name != "grad":
                return [(None, name)]
            case ast.Name(id=name):
                function = script.function(expression)
                own = function is None or name in self._own[function]
                return [(function if own else None, name)]
        return []
