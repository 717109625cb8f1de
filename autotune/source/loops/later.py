"""Loaders and backward passes that a training comes to only later, as its source shows."""

import ast
import re
from collections.abc import Sequence

from autotune.source.edits import Place
from autotune.source.loops.around_training import running, running_in_training
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.evaluation import is_without_gradients
from autotune.source.loops.late_terms import changes_later
from autotune.source.loops.loss import BACKWARDS
from autotune.source.program import Program, first_of, holds
from autotune.source.reach import callers, calls_in
from autotune.source.script import Function, Script, last_name, names_in, stored_names

_PASSES = (*BACKWARDS, "grad")
# Names of what is kept to try a model on.
HELD_OUT = re.compile("eval|(?<!inter)val(?!ue)|(?<!la)test")  # no interval, value, latest


class Passes:
    """The backward passes of a program, and which of them its first steps were seen to have.

    Args:
        program: with the places of those that were seen.
        loops: those of its training.
        ran: all that runs in them, as far as names tell.
    """

    def __init__(self, program: Program, loops: Sequence[ast.AST], ran: set[ast.AST]) -> None:
        self._program, self._ran = program, ran
        self._changed = given_code([at for at in loops if isinstance(at, ast.stmt)])
        self._attributes = {
            at.attr
            for script, at in program.nodes()
            if at in ran and isinstance(at, ast.Attribute) and isinstance(at.ctx, ast.Store)
            if changes_later(script, at)
        }
        self._names = set(_PASSES).union(*(callers(program, name) for name in _PASSES))
        self._seen = {
            call
            for script, call in program.calls()
            if last_name(call.func) in _PASSES and holds(script, call, program.places.backwards)
        }

    def came(self, block: Sequence[ast.stmt]) -> bool:
        """Whether one of those that stand in `block` was seen."""
        return any(at in self._seen for statement in block for at in ast.walk(statement))

    def come_later(self, script: Script, node: ast.If) -> bool:
        """Whether `node` asks for what the training changes, and none of its own passes came."""
        names = {last_name(call.func) for at in node.body for call in calls_in(at)}
        called = {name for name in names if not HELD_OUT.search(name.lower())}
        if called.isdisjoint(self._names) or not self._may_turn(script, node.test):
            return False
        if any(self._goes_elsewhere(script, node, at) for at in script.ancestors(node)):
            return False
        found = self._passes_of(node.body)
        block = script.block(node)
        before = [at for at in block[: block.index(node)] if not isinstance(at, ast.If)]
        known = self._passes_of(before) if self.came(before) else set[ast.Call]()
        return bool(found - known) and found.isdisjoint(self._seen)

    def _passes_of(self, block: Sequence[ast.stmt]) -> set[ast.Call]:
        """Those that run where `block` does."""
        ran = running(self._program, list(block))
        return {at for at in ran if isinstance(at, ast.Call) and last_name(at.func) in _PASSES}

    def _goes_elsewhere(self, script: Script, node: ast.If, around: ast.AST) -> bool:
        """Whether nothing changes the condition `around`, and its other branch had passes."""
        if not isinstance(around, ast.If) or self._may_turn(script, around.test):
            return False
        inside = any(node is at for statement in around.body for at in ast.walk(statement))
        other = around.orelse if inside else around.body
        return self.came(other)

    def _may_turn(self, script: Script, test: ast.expr) -> bool:
        """Whether the loops set what `test` reads, and it neither repeats nor asks for a kind."""
        if _is_periodic(test) or _asks_for_kind(test):
            return False
        read = code_in(test)
        around = script.function(test) or script.tree
        values = [
            at.value
            for at in ast.walk(around)
            if isinstance(at, ast.Assign) and not read.isdisjoint(map(ast.unparse, at.targets))
        ]
        if any(map(_is_periodic, values)):
            return False
        whole = {code for code in read if not any(each.startswith(f"{code}.") for each in read)}
        attributes = {code.rpartition(".")[2] for code in whole if "." in code}
        return bool(whole & self._changed or attributes & self._attributes)


def _is_periodic(value: ast.expr) -> bool:
    return any(isinstance(at, ast.Mod) for at in ast.walk(value))


def _asks_for_kind(test: ast.expr) -> bool:
    if any(last_name(at) == "training" for at in ast.walk(test) if isinstance(at, ast.expr)):
        return True  # as torch.nn.Module has it: evaluation comes to the other branch
    compared = [at for at in ast.walk(test) if isinstance(at, ast.Compare)]
    return any(isinstance(op, ast.Is | ast.IsNot) for at in compared for op in at.ops)


def later_loader(program: Program, built: Sequence[Place]) -> str:
    """A DataLoader that the loops of the training come to, and none that was seen to be `built`.

    Those under a condition, or that a `return` gives back, may be another configuration's, as those
    of a class that stands for another may; those of a function that trains another training's; and
    what is named as held-out data, or drawn from without gradients, trains nothing.
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
