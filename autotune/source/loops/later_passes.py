"""Backward passes that have not come yet, and may once the training has changed something."""

import ast
from collections.abc import Sequence

from autotune.source.loops.around_training import running
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.late_terms import changes_later
from autotune.source.loops.later_loader import HELD_OUT
from autotune.source.loops.loss import BACKWARDS
from autotune.source.program import Program, holds
from autotune.source.reach import callers, calls_in
from autotune.source.script import Script, last_name

_PASSES = (*BACKWARDS, "grad")


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
