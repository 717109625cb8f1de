"""Whether a training ends after a number of steps, however many batches an epoch has."""

import ast
from collections.abc import Collection

from autotune.source.loops.around_training import own_loops, running
from autotune.source.loops.beginnings import counters, is_count
from autotune.source.loops.endings import ending_tests
from autotune.source.program import Program


def ends_by_count(program: Program) -> bool:
    """Whether the loop over batches goes over a range or is left at a count of its steps; of one
    with epochs round it, whether that too is.
    """
    inner, outer = own_loops(program)
    steps = {node for loop in inner for node in ast.walk(loop)} | running(program, inner)
    names = [name for name in counters(inner, steps) if "epoch" not in name]
    return any(map(_goes_over_a_range, inner)) or any(
        _asks_for_count(test, names)
        for script in program.scripts.values()
        for loop in (at for at in script.nodes if at in (outer or inner))
        for test, _ in ending_tests(script, loop)
    )


def _goes_over_a_range(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and any(
        isinstance(at, ast.Name) and at.id == "range" for at in ast.walk(loop.iter)
    )


def _asks_for_count(test: ast.expr, names: Collection[str]) -> bool:
    compared = (at for at in ast.walk(test) if isinstance(at, ast.Compare))
    return any(is_count(at.left, names) for at in compared)
