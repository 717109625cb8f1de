"""What all calls of a function give it for a parameter, where that is one and the same."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from autotune.source.options.values import UNKNOWN, Values
from autotune.source.reach import argument, defaults_of
from autotune.source.script import Function, last_name, stored_names


def given_always(files: Sequence[tuple[ast.Module, Values]]) -> dict[ast.AST, dict[str, Any]]:
    """By function, the parameters for which each of its calls (one or more) gives the same."""
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
    defaults = defaults_of(function)
    stored = stored_names(function)
    for name in (each.arg for each in (*places, *arguments.kwonlyargs)):
        of = []
        for call, where in calls:
            told = argument(call, function, name, bound=bound)
            if told is None:
                of.append(values.of(defaults[name]) if name in defaults else UNKNOWN)
            else:
                of.append(UNKNOWN if told is call else where.of(told))
        known = of[0] is not UNKNOWN and all(type(each) is type(of[0]) for each in of)
        if name not in stored and known and all(each == of[0] for each in of):
            yield name, of[0]
