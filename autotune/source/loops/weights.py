"""What a loop does to weights, and an optimizer's groups of them, besides the optimizer's step."""

import ast
import re
from collections.abc import Collection, Iterable, Sequence

from autotune.source.program import Program
from autotune.source.reach import argument, calls_in, functions_named, is_bound
from autotune.source.script import Script, last_name, names_in

# What moves another net after the step, by the usual names: an average, a target.
_MOVING = ("update_parameters", "soft_update")
_MOVED = {"target", "average", "momentum", "swa", "polyak", "teacher"}
_METERS = {"meter", "meters", "loss", "losses", "metric", "metrics", "tracker"}
_ASKED = {f"new{kind}" for kind in ("", "_zeros", "_ones", "_empty", "_full", "_tensor")} | {
    *("dtype", "device", "shape", "size", "type", "is_cuda"),
}
_OF_WEIGHTS = ("parameters", "named_parameters", "state_dict", "buffers", "named_buffers")
_OF_A_GROUP = "params"  # the key under which a group has them


def averages(call: ast.Call, *, after: bool) -> bool:
    """Whether `call`, which may come `after` backward, keeps an average of weights by its name."""
    name = last_name(call.func)
    own, owner = _words(name), set[str]()
    if isinstance(call.func, ast.Attribute):
        owner = _words(last_name(call.func.value))
    if "ema" in own | owner:
        return True
    moves = bool(own & _MOVED) or any(each in name.lower() for each in _MOVING)
    return after and moves and not (own | owner) & _METERS


def _words(name: str) -> set[str]:
    """The words of `snake_case` and `CamelCase`, in small letters and without numbers."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def moves_weights(statement: ast.stmt, beside: Sequence[ast.stmt] = ()) -> bool:
    """Whether `statement` goes over weights and changes tensors in place, or what holds them.

    Args:
        statement: of a loop or a function.
        beside: all of that, which may do no more with a weight than make other tensors like it.
    """
    if _is_a_pattern(statement, beside):
        return False
    nodes = list(ast.walk(statement))
    targets = [at.target for at in nodes if isinstance(at, ast.For)]
    bound = set[str]().union(*map(names_in, targets))
    changes = any(
        (isinstance(at, ast.Attribute) and _changes_it(at.attr))
        or (
            isinstance(at, ast.AugAssign)
            and not (isinstance(at.target, ast.Name) and at.target.id not in bound)
        )
        for at in nodes
    )
    return changes and any(last_name(call.func) in _OF_WEIGHTS for call in calls_in(statement))


def _is_a_pattern(statement: ast.stmt, beside: Sequence[ast.stmt]) -> bool:
    """Whether `statement` takes a weight's tensor to ask what it is, and for others like it."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Attribute(attr="data", value=ast.Call(func=ast.Name(id="next"))),
        ):
            nodes = [at for each in beside for at in ast.walk(each)]
            asked = [
                at.value for at in nodes if isinstance(at, ast.Attribute) and at.attr in _ASKED
            ]
            loads = (
                at for at in nodes if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Load)
            )
            return bool(nodes) and all(at in asked for at in loads if at.id == name)
    return False


def _changes_it(name: str) -> bool:
    """Whether an attribute or method of that `name` changes its tensor, as `add_` does."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("data", "load_state_dict")


def touches_groups(script: Script, nodes: Iterable[ast.AST]) -> bool:
    """Whether one of `nodes` is an optimizer's groups, and not only its settings are read."""
    return any(
        isinstance(at, ast.Attribute) and at.attr == "param_groups" and not _is_read(script, at)
        for at in nodes
    )


def only_reads_groups(program: Program, call: ast.Call, optimizers: Collection[ast.expr]) -> bool:
    """Whether `call` is of own functions that only read the groups' settings of `optimizers`."""
    functions = list(functions_named(program, last_name(call.func)))
    return bool(functions) and all(
        _only_reads(script, use)
        for script, function in functions
        for use in ast.walk(function)
        if isinstance(use, ast.Name)
        and argument(call, function, use.id, bound=is_bound(script, function))
        in (call, *optimizers)
    )


def _only_reads(script: Script, use: ast.Name) -> bool:
    above = next(script.ancestors(use))
    return (
        isinstance(above, ast.Attribute)
        and above.attr == "param_groups"
        and _is_read(script, above)
    )


def _is_read(script: Script, node: ast.expr, known: tuple[str, ...] = ()) -> bool:
    """Whether only settings are read from `node`, a group or all, which has the names `known`."""
    above = script.ancestors(node)
    match next(above):
        case ast.Subscript(ctx=ast.Load(), slice=ast.Constant(value=str(key))):
            return key != _OF_A_GROUP
        case ast.Subscript(value=whole, ctx=ast.Load()) as part if whole is node:
            return _is_read(script, part, known)
        case ast.Call(func=function):
            return last_name(function) == "len"
        case ast.For(target=ast.Name(id=name), iter=source) as loop if source is node:
            around: ast.AST = loop
        case ast.comprehension(target=ast.Name(id=name), iter=source) if source is node:
            around = next(above)
        case ast.Assign(targets=[ast.Name(id=name)]):
            around = script.function(node) or script.tree
        case _:
            return False
    uses = (at for at in ast.walk(around) if isinstance(at, ast.Name) and at.id == name)
    return name not in known and all(
        _is_read(script, at, (*known, name)) for at in uses if isinstance(at.ctx, ast.Load)
    )
