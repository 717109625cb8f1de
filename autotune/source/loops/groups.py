"""An optimizer's groups of parameters: is any of their settings changed, or only read?"""

import ast
from collections.abc import Collection, Iterable

from autotune.source.program import Program
from autotune.source.reach import argument, functions_named, is_bound
from autotune.source.script import Script, last_name

_WEIGHTS = "params"  # the key under which a group has them


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
            return key != _WEIGHTS
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
