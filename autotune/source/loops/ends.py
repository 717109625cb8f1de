"""Whether a training ends after a number of steps, however many batches an epoch has."""

import ast
from collections.abc import Collection

from autotune.source.loops.around_training import own_loops, running
from autotune.source.loops.beginnings import counters, is_count
from autotune.source.program import Program


def ends_by_count(program: Program) -> bool:
    """Whether the loop over batches goes over a range or is left at a count of its steps; of one
    with epochs round it, whether that too is.
    """
    inner, outer = own_loops(program)
    loops = [*inner, *outer]
    own = {node for loop in loops for node in ast.walk(loop)}
    names = counters(loops, own | running(program, loops))
    inside = {node for loop in inner if outer for node in ast.walk(loop)}
    return any(_goes_by_count(loop, names) for loop in inner) or any(
        _is_left_by_count(node, names, within_epochs=node in inside) for node in own
    )


def _goes_by_count(loop: ast.AST, names: Collection[str]) -> bool:
    match loop:
        case ast.For(iter=over):
            return any(isinstance(at, ast.Name) and at.id == "range" for at in ast.walk(over))
        case ast.While(test=test):
            return _asks_for_count(test, names)
    return False


def _is_left_by_count(node: ast.AST, names: Collection[str], *, within_epochs: bool) -> bool:
    match node:
        case ast.If(test=test, body=[*_, ast.Break() | ast.Return() as last]):
            ends = isinstance(last, ast.Return) or not within_epochs
            return ends and _asks_for_count(test, names)
    return False


def _asks_for_count(test: ast.expr, names: Collection[str]) -> bool:
    compared = (at for at in ast.walk(test) if isinstance(at, ast.Compare))
    return any(is_count(at.left, names) for at in compared)
