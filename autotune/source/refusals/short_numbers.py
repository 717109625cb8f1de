"""What a short number format loses without an error, and beyond the steps that are compared: small
chances, and what moves on by small steps.
"""

import ast
from collections.abc import Iterator

from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.refusals.kept_inside import forward_methods, kept_in, may_be_short
from autotune.source.script import Function, last_name

# Random numbers in [0, 1) in the format of what they are drawn for; bfloat16 has those of 256.
_LIKE = frozenset(("rand_like", "uniform_"))
# What keeps numbers from 0 and 1.
_BOUNDING = frozenset(("clamp", "clamp_", "clamp_min", "clip", "add", "maximum"))
_OFTEN = 1 / 32  # what bfloat16 takes to be up to an eighth more


def rare_chance(program: Program) -> str:
    """Where a model compares random numbers in the format of its activations with what may be a
    small chance, or takes their logarithm: file and line, "" where it does not.
    """
    for script in program.scripts.values():
        for kind in script.nodes if any(each in script.text for each in _LIKE) else ():
            if not (isinstance(kind, ast.ClassDef) and _computes(kind)):
                continue
            for method in (at for at in kind.body if isinstance(at, Function)):
                for node in _asked_of_chance(method):
                    return f"{script.path}:{node.lineno}"
    return ""


def _computes(kind: ast.ClassDef) -> bool:
    return any(isinstance(at, Function) and at.name == "forward" for at in kind.body)


def _asked_of_chance(method: Function) -> Iterator[ast.expr]:
    drawn = {
        last_name(target)
        for node in ast.walk(method)
        if isinstance(node, ast.Assign) and _draws(node.value)
        for target in node.targets
    }

    def is_drawn(value: ast.expr) -> bool:
        return _draws(value) or (isinstance(value, ast.Name) and value.id in drawn)

    for node in ast.walk(method):
        match node:
            case ast.Compare(left=one, comparators=[other]):
                if any(map(is_drawn, (one, other))) and not any(map(_is_often, (one, other))):
                    yield node
            case ast.Call(func=function, args=given) if last_name(function) == "log":
                owner = [function.value] if isinstance(function, ast.Attribute) else []
                if any(is_drawn(at) for each in (*given, *owner) for at in _terms(each)):
                    yield node


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    """What `value` is, and what arithmetic makes it of: nothing that another call is given."""
    yield value
    match value:
        case ast.BinOp(left=one, right=other):
            yield from (*_terms(one), *_terms(other))
        case ast.UnaryOp(operand=one):
            yield from _terms(one)
        case ast.Call(func=function, args=given) if last_name(function) in _BOUNDING:
            owner = [function.value] if isinstance(function, ast.Attribute) else []
            for each in (*owner, *given[:1]):
                yield from _terms(each)


def _draws(value: ast.AST) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in _LIKE


def _is_often(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=int() | float() as chance):
            return _OFTEN <= chance <= 1 - _OFTEN
    return False


def running_values(program: Program, *, on_a_gpu: bool) -> str:
    """Where a module moves on by a step what it has kept of an earlier forward pass in the format
    of autocast, as a running mean that began as the first batch's: file and line, "" where none
    does.
    """
    for script in program.scripts.values():
        for method in forward_methods(script):
            kept = [(name, value) for name, value in kept_in(method)]
            anew = {at.value for at in method.body if isinstance(at, ast.Assign)}
            began = {
                name
                for name, value in kept
                if not _mentions(value, name) and may_be_short(method, value, on_a_gpu)
            } - {name for name, value in kept if value in anew and not _mentions(value, name)}
            for name, value in kept:
                if name in began and _moves_on(value, name):
                    return f"{script.path}:{value.lineno}"
    return ""


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(at, ast.Attribute) and at.attr == name for at in ast.walk(value))


def _moves_on(value: ast.expr, name: str) -> bool:
    """Whether it is `self.mean + m * (new - self.mean)`, or what `lerp` gives of it."""
    if isinstance(value, ast.BinOp):
        return _mentions(value, name)
    return any(last_name(call.func) == "lerp" and _mentions(call, name) for call in calls_in(value))
