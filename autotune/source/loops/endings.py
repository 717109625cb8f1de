"""The conditions by which a loop ends, and whether one is a count of its steps."""

import ast
from collections.abc import Collection, Iterator, Sequence

from autotune.source.loops.around_training import own_loops, running
from autotune.source.loops.beginnings import counters, is_count
from autotune.source.program import Program
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


def ends_by_count(program: Program) -> bool:
    """Whether the loop over batches, and that over epochs, goes over a range or ends by a count."""
    inner, outer = own_loops(program)
    steps = {node for loop in inner for node in ast.walk(loop)} | running(program, inner)
    names = [name for name in counters(inner, steps) if "epoch" not in name]
    return any(map(_goes_over_a_range, inner)) or any(
        _asks_for_count(test, names)
        for script in program.scripts.values()
        for loop in (at for at in script.nodes if at in (outer or inner))
        for test, _ in ending_tests(script, loop)
    )


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


def _goes_over_a_range(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and any(
        isinstance(at, ast.Name) and at.id == "range" for at in ast.walk(loop.iter)
    )


def _asks_for_count(test: ast.expr, names: Collection[str]) -> bool:
    compared = (at for at in ast.walk(test) if isinstance(at, ast.Compare))
    return any(is_count(at.left, names) for at in compared)
