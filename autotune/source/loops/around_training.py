"""The loops round a program's training step, and what of the program runs in them."""

import ast

from autotune.source.program import Program
from autotune.source.reach import callers, calls_in, reached, running_parts
from autotune.source.script import Function, Script, covers, last_name

Loop = ast.For | ast.While


def loops_of_training(program: Program) -> tuple[list[ast.AST], list[ast.AST]]:
    """The loops that run the backward pass that was seen, whether it stands in them or in what they
    call: the innermost ones, over batches, and those round them, over epochs. Where no loop runs
    it, its function; nothing where no backward pass was seen.
    """
    place = program.places.backward
    if place is None or place.path not in program.scripts:
        return [], []
    script = program.scripts[place.path]
    held = [at for at in ast.walk(script.tree) if _covers(at, place.line)]
    if not held:
        return [], []
    inner, outer = list[ast.AST](), list[ast.AST]()
    waiting: list[tuple[Script, ast.AST, bool]] = [(script, held[-1], False)]
    known = set[tuple[str, bool]]()
    while waiting:
        at, node, is_inside = waiting.pop()
        around = [each for each in at.statements_to(node) if isinstance(each, Loop)]
        inner += [] if is_inside else around[:1]
        outer += around[0 if is_inside else 1 :]
        function, is_inside = at.function(node), is_inside or bool(around)
        if function is not None and (function.name, is_inside) not in known:
            known.add((function.name, is_inside))
            waiting += [(by, call, is_inside) for by, call in _calls_of(program, function.name)]
    return inner or [script.function(held[-1]) or script.tree], outer


def running(program: Program, sources: list[ast.AST]) -> set[ast.AST]:
    """All that runs where `sources` do, as far as names tell."""
    found = (part for node in reached(program, sources) for part in running_parts(node))
    return {node for part in found for node in ast.walk(part)}


def running_meanwhile(program: Program) -> set[ast.AST]:
    """What runs in the loop over batches, as far as names tell, without the functions round it,
    which may go by a name that is called in it (`model.train()`).
    """
    over_batches, _ = loops_of_training(program)
    inside = {node for loop in over_batches for node in ast.walk(loop)}
    holders = (at.function(loop) for at in program.scripts.values() for loop in over_batches)
    around = {name for at in holders if at is not None for name in callers(program, at.name)}
    apart = {
        node
        for script in program.scripts.values()
        for function in ast.walk(script.tree)
        if isinstance(function, Function) and function.name in around
        for node in ast.walk(function)
    }
    return running(program, over_batches) - (apart - inside)


def _covers(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.stmt) and covers(node, line)


def _calls_of(program: Program, name: str) -> list[tuple[Script, ast.Call]]:
    return [
        (script, call)
        for script in program.scripts.values()
        for call in calls_in(script.tree)
        if last_name(call.func) == name
    ]
