"""The conditions by which a loop ends before its time."""

import ast
from collections.abc import Iterator, Sequence

from autotune.source.script import Script

_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
_RAISED = frozenset({"SystemExit", "KeyboardInterrupt", "StopIteration"})


def ending_tests(script: Script, loop: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Each condition that `loop` ends by, and whether it ends where that holds: not a `while`."""
    if isinstance(loop, ast.While):
        yield loop.test, False
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and any(
            _leaves(script, at, loop) for at in _whenever(node.body)
        ):
            yield node.test, True


def _whenever(block: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """What runs in `block` without another condition."""
    for node in block:
        yield node
        if not isinstance(node, ast.If):
            yield from _whenever(list(ast.iter_child_nodes(node)))


def _leaves(script: Script, node: ast.AST, loop: ast.AST) -> bool:
    """Whether `node` ends `loop`."""
    if isinstance(node, ast.Break):
        around = (at for at in script.ancestors(node) if isinstance(at, ast.For | ast.While))
        return next(around, None) is loop
    match node:
        case ast.Call(func=function):
            return script.qualified(function) in _EXITS
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name in _RAISED
    # What a framework calls only gives back control: its loops go on.
    return isinstance(node, ast.Return) and isinstance(loop, ast.For | ast.While)
