"""Where a program writes into what flattens a tensor: that is a copy where the tensor lies in
another order than the usual one, and the tensor itself stays as it was.
"""

import ast
from collections.abc import Iterator

from autotune.source.calls.writes import written_into
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Function, Script, last_name

_FLATTENING = frozenset(("reshape", "flatten", "ravel", "contiguous"))


def written_flat(program: Program) -> str:
    """Where `weight.reshape(-1)[smallest] = 0`, or `flat = weight.reshape(-1)` whose only use is
    that it is written into: file and line, "" where nothing of the kind is.
    """
    for script in program.scripts.values():
        for node in script.nodes if any(each in script.text for each in _FLATTENING) else ():
            if any(_is_flat(script, node, target) for target in _targets(node)):
                return f"{script.path}:{getattr(node, 'lineno', 1)}"
    return ""


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What `node` writes into, as it is written there."""
    match node:
        case ast.Assign(targets=targets):
            yield from (each.value for each in targets if isinstance(each, ast.Subscript))
        case ast.AugAssign(target=ast.Subscript(value=whole)):
            yield whole
        case ast.AugAssign(target=ast.Name() as whole):
            yield whole
        case ast.Call(func=ast.Attribute(value=whole)) if any(written_into(node)):
            yield whole


def _is_flat(script: Script, node: ast.AST, target: ast.expr) -> bool:
    if not isinstance(target, ast.Name):
        return any(_flattens(call) for call in calls_in(target))
    around = script.function(node)
    return around is not None and _is_only_written(around, target.id)


def _is_only_written(function: Function, name: str) -> bool:
    """Whether the variable `name` is a tensor that was flattened, and nobody is given it."""
    values = [
        at.value
        for at in ast.walk(function)
        if isinstance(at, ast.Assign) and name in map(last_name, at.targets)
    ]
    if not values or not all(isinstance(at, ast.Call) and _flattens(at) for at in values):
        return False
    given = [
        each
        for at in ast.walk(function)
        for each in (
            (*at.args, *(word.value for word in at.keywords))
            if isinstance(at, ast.Call)
            else (getattr(at, "value", None),)
            if isinstance(at, ast.Return | ast.Yield | ast.Assign)
            else ()
        )
    ]
    return not any(isinstance(each, ast.Name) and each.id == name for each in given)


def _flattens(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _FLATTENING
