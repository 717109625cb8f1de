"""Loaders that a training builds only later, as its source shows."""

import ast
import re
from collections.abc import Sequence

from autotune.source.edits import Place
from autotune.source.loops.around_training import running_in_training
from autotune.source.loops.evaluation import is_without_gradients
from autotune.source.program import Program, first_of, holds
from autotune.source.reach import callers
from autotune.source.script import Function, Script, last_name, names_in, stored_names

# Names of what is kept to try a model on.
HELD_OUT = re.compile("eval|(?<!inter)val(?!ue)|(?<!la)test")  # no interval, value, latest


def later_loader(program: Program, built: Sequence[Place]) -> str:
    """File and line of a DataLoader that stands in the loops of the training of `program`, or in
    what they call, and is none of those that were seen to be `built`; "" where there is none.

    Those under a condition, or that one of several `return` gives back, may be another
    configuration's, as those of a class may be that has a method of the name in which another has
    built one; those of a function that trains another training's; and what goes by a name of
    held-out data trains nothing, nor what a function draws from that computes no gradients.
    """
    ran, training = running_in_training(program), callers(program, "backward")
    others = _instead(program, built)
    return first_of(
        (script, call)
        for script, call in program.calls()
        if call in ran and last_name(call.func) == "DataLoader"
        if not holds(script, call, built)
        if not _is_chosen(script, call) and others.isdisjoint(script.ancestors(call))
        if not _is_drawn_from_to_evaluate(script, call)
        if not any(
            name in training or HELD_OUT.search(name.lower()) for name in _names(script, call)
        )
    )


def _instead(program: Program, built: Sequence[Place]) -> set[ast.AST]:
    """The classes that may stand in the place of one that has built a loader."""
    builders = {at.name for script, at in program.functions() if holds(script, at, built)}
    return {
        at
        for script, at in program.classes()
        if not holds(script, at, built)
        if any(isinstance(each, Function) and each.name in builders for each in at.body)
    }


def _is_chosen(script: Script, call: ast.Call) -> bool:
    """Whether it is built only where something is so, or is one of several that may be."""
    around = script.statements_to(call)
    return any(isinstance(at, ast.If | ast.Try | ast.Match | ast.Return) for at in around)


def _is_drawn_from_to_evaluate(script: Script, call: ast.Call) -> bool:
    """Whether its function computes without gradients, and neither keeps it nor gives it back."""
    function, statement = script.function(call), script.statement(call)
    if function is None or not is_without_gradients(script, call):
        return False
    names, parts = stored_names(statement), list(ast.walk(function))
    given = {name for at in parts if isinstance(at, ast.Return) for name in names_in(at)}
    gives = bool(names & given) or any(isinstance(at, ast.Yield) for at in parts)
    return bool(names) and not gives


def _names(script: Script, call: ast.Call) -> list[str]:
    """Of the functions that hold it, and the code of its statement."""
    functions = [at.name for at in script.ancestors(call) if isinstance(at, Function)]
    return [*functions, ast.unparse(script.statement(call))]
