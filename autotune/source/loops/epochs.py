"""How many epochs a run has at the most, where its text and its options tell."""

import ast
from collections.abc import Mapping
from typing import Any

from autotune.source.loops.around_training import own_loops
from autotune.source.loops.how_far import RANGES
from autotune.source.options.values import Values, parsing, set_later
from autotune.source.program import Program
from autotune.source.script import last_name


def most_epochs(program: Program, options: Mapping[str, Any]) -> int | None:
    """How often the one loop round that over batches goes through it, if no break ends it sooner;
    None where there is none, or it is not over a range of numbers that the `options` or the text
    tell.
    """
    match own_loops(program):
        case (
            [ast.For(iter=batches)],
            [ast.For(iter=ast.Call(func=over, args=bounds, keywords=[])) as loop],
        ) if last_name(over) in RANGES and len(bounds) <= 2:
            pass
        case _:
            return None
    if isinstance(batches, ast.Call) and last_name(batches.func) in RANGES:
        return None
    values = _values(program, options, loop)
    found = [0, *(values.of(each) for each in bounds)]
    if not all(type(each) is int for each in found):
        return None
    return max(0, int(found[-1]) - int(found[-2]))


def _values(program: Program, options: Mapping[str, Any], loop: ast.For) -> Values:
    """What expressions at `loop` come out as."""
    trees = [script.tree for script in program.scripts.values()]
    parses = parsing(trees)
    changed = {
        name for made in (True, False) for at in trees for name in set_later(at, parses, made=made)
    }
    script = next(each for each in program.scripts.values() if loop in each.nodes)
    known = {name: value for name, value in options.items() if name not in changed}
    values = Values(script.tree, known, changed, {})
    function = script.function(loop)
    return values if function is None else values.inside(function, {})
