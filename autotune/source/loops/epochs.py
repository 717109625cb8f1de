"""How many epochs a run has at the most, where its text and its options tell."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.source.loops.around_training import own_loops
from autotune.source.loops.how_far import RANGES
from autotune.source.loops.iteration import loader_of
from autotune.source.options.values import Values, parsing, set_later
from autotune.source.program import Program, Refusal
from autotune.source.reach import is_bound
from autotune.source.script import Function, Script, last_name

# A call in these is none, or many.
_MADE_AGAIN = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda


def most_epochs(program: Program, options: Mapping[str, Any]) -> int | None:
    """How often the one loop round that over batches goes through it, if no break ends it sooner;
    None where there is none, or it is not over a range of numbers that the `options` or the text
    tell, where an epoch is no pass over a loader, or a run may come to it twice.
    """
    match own_loops(program):
        case (
            [ast.For() as batches],
            [ast.For(iter=ast.Call(func=over, args=bounds, keywords=[])) as loop],
        ) if last_name(over) in RANGES and 1 <= len(bounds) <= 2:
            pass
        case _:
            return None
    script = _script_of(program, batches)
    if not _goes_over_a_loader(script, batches) or not _comes_once(program, script, batches):
        return None
    values = _values(program, options, loop)
    found = [0, *(values.of(each) for each in bounds)]
    if not all(type(each) is int for each in found):
        return None
    return max(0, int(found[-1]) - int(found[-2]))


def _script_of(program: Program, node: ast.AST) -> Script:
    return next(each for each in program.scripts.values() if node in each.nodes)


def _goes_over_a_loader(script: Script, loop: ast.For) -> bool:
    """Whether it does so by itself, in enumerate() or a progress bar: `zip(range(500), loader)`, or
    `forever(loader)`, may be less than it, or more.
    """
    try:
        loader_of(script, loop, loop.iter, "", built=True)
    except Refusal:
        return False
    return True


def _comes_once(program: Program, script: Script, node: ast.AST) -> bool:
    """Whether the function that `node` stands in is called in one place at the most, and handed on
    to nobody; so is that which calls it.
    """
    known = set[Function]()
    while (function := script.function(node)) is not None:
        uses = list(_uses(program, script, function))
        if not uses:
            return True
        script, node = uses[0]
        around = list(script.ancestors(node))
        called = isinstance(around[0], ast.Call) and around[0].func is node
        again = function in known or any(isinstance(at, _MADE_AGAIN) for at in around)
        if len(uses) > 1 or again or not called:
            return False
        known.add(function)
    return True


def _uses(
    program: Program, script: Script, function: Function
) -> Iterator[tuple[Script, ast.expr]]:
    """Where the program names `function`, of `script`: a method as an attribute of whatever, any
    other function as itself, or as what is imported.
    """
    bound = is_bound(script, function)
    for by in program.scripts.values():
        for node in by.nodes:
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()) if bound:
                    uses = name == function.name
                case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if not bound:
                    uses = _is_of(by, node, function.name, own=by is script)
                case _:
                    continue
            if uses:
                yield by, node


def _is_of(script: Script, node: ast.expr, name: str, *, own: bool) -> bool:
    """Whether `node` is a function of that name, of its `own` file or of one that it imports."""
    known = script.qualified(node)
    if known == name:
        return own or "*" in script.imports
    return known.endswith(f".{name}") and ast.unparse(node).partition(".")[0] in script.imports


def _values(program: Program, options: Mapping[str, Any], loop: ast.For) -> Values:
    """What expressions at `loop` come out as."""
    trees = [script.tree for script in program.scripts.values()]
    parses = parsing(trees)
    changed = {
        name for made in (True, False) for at in trees for name in set_later(at, parses, made=made)
    }
    script = _script_of(program, loop)
    known = {name: value for name, value in options.items() if name not in changed}
    values = Values(script.tree, known, changed, {})
    function = script.function(loop)
    return values if function is None else values.inside(function, {})
