"""What all calls of a function give it for a parameter, where that is one and the same."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotune.source.options.values import UNKNOWN, Values
from autotune.source.script import Function, last_name


def given_always(files: Sequence[tuple[ast.Module, Values]]) -> dict[ast.AST, dict[str, Any]]:
    """By function, the parameters for which each call of it in `files` (and there is one) gives the
    same known value, or leaves the default; none of a function that is handed on, or decorated, or
    whose name others have, and none that it sets itself.
    """
    functions: dict[str, list[tuple[Function, Values, bool]]] = {}
    calls: dict[str, list[tuple[ast.Call, Values]]] = {}
    handed_on = set[str]()
    for tree, values in files:
        methods = {
            at for kind in ast.walk(tree) if isinstance(kind, ast.ClassDef) for at in kind.body
        }
        called = {at.func: at for at in ast.walk(tree) if isinstance(at, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                functions.setdefault(node.name, []).append((node, values, node in methods))
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                if node in called:
                    calls.setdefault(last_name(node), []).append((called[node], values))
                else:
                    handed_on.add(last_name(node))
    return {
        found[0][0]: dict(_given(*found[0], calls[name]))
        for name, found in functions.items()
        if len(found) == 1 and name in calls.keys() - handed_on
        if not (found[0][0].decorator_list or name.startswith("__"))
    }


def _given(
    function: Function, values: Values, bound: bool, calls: Sequence[tuple[ast.Call, Values]]
) -> Iterator[tuple[str, Any]]:
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args][bound:]
    defaults = _defaults(function)
    stored = {
        at.id
        for at in ast.walk(function)
        if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store)
    }
    for index, name in enumerate(each.arg for each in (*places, *arguments.kwonlyargs)):
        place = index if index < len(places) else None
        told = [_told(call, place, name, defaults) for call, _ in calls]
        of = [
            (where if told_here else values).of(value) if value is not None else UNKNOWN
            for (value, told_here), (_, where) in zip(told, calls, strict=True)
        ]
        known = of[0] is not UNKNOWN and all(type(each) is type(of[0]) for each in of)
        if name not in stored and known and all(each == of[0] for each in of):
            yield name, of[0]


def _told(
    call: ast.Call, place: int | None, name: str, defaults: Mapping[str, ast.expr]
) -> tuple[ast.expr | None, bool]:
    """What `call` gives for the parameter `name`, which may stand at `place`, or else the default;
    None where that is not told; and whether it is the call that gives it.
    """
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None, True
    for keyword in call.keywords:
        if keyword.arg in (name, None):
            return (keyword.value if keyword.arg else None), True
    if place is not None and place < len(call.args):
        return call.args[place], True
    return defaults.get(name), False


def _defaults(function: Function) -> dict[str, ast.expr]:
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args]
    with_one = places[len(places) - len(arguments.defaults) :]
    found = {at.arg: value for at, value in zip(with_one, arguments.defaults, strict=True)}
    only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {at.arg: value for at, value in only if value is not None}
