"""A training loop: its statements, and which of them belong to the optimizer's step."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.forward import is_zero_grad
from autotune.source.loops.loss import CLIPS
from autotune.source.places import Call
from autotune.source.script import Function, Script, is_method, last_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoop:
    """A `for` over a loader with backward and step as statements of its body.

    `index` counts the batches from 0 in code of the loop's own, "" where nothing counts them;
    `stored` names what functions that the loop calls give a value.
    """

    script: Script
    node: ast.For
    backward: Call
    step: Call
    loader: ast.expr
    index: str
    stored: frozenset[str] = frozenset()

    @property
    def clears(self) -> list[ast.stmt]:
        """The `zero_grad()` statements before backward."""
        return [at for at in self._before if is_zero_grad(at)]

    @property
    def runs(self) -> list[list[ast.stmt]]:
        """The statements after backward that belong to the step, in stretches without others."""
        runs: list[list[ast.stmt]] = [[]]
        for statement in self._after:
            if self._belongs_to_step(statement):
                runs[-1].append(statement)
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]

    @property
    def schedulers(self) -> list[ast.stmt]:
        """The statements that step something else than the optimizer: a scheduler, a profiler."""
        step = self.step.statement
        return [
            at
            for at in self._after
            if at is not step and isinstance(at, ast.Expr) and is_method(at.value, "step")
        ]

    @property
    def others(self) -> list[ast.stmt]:
        """The statements of the body that are neither backward nor of the optimizer's step."""
        of_step = [at for run in self.runs for at in run]
        own = (*of_step, *self.clears, self.backward.statement)
        return [at for at in self.node.body if at not in own]

    @property
    def _before(self) -> list[ast.stmt]:
        return self.node.body[: self.node.body.index(self.backward.statement)]

    @property
    def _after(self) -> list[ast.stmt]:
        return self.node.body[self.node.body.index(self.backward.statement) + 1 :]

    def is_constant(self, test: ast.expr) -> bool:
        """Whether `test` comes out the same for every batch, as far as its names show."""
        calls = any(isinstance(at, ast.Call) for at in ast.walk(test))
        given = code_in(test) & given_code([self.node])
        return not calls and not given and not _parts_in(test) & self.stored

    def _belongs_to_step(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            fixed = not statement.orelse and self.is_constant(statement.test)
            return fixed and all(map(self._belongs_to_step, statement.body))
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return _gives_norm(value) and not self.reads(name)
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        call = statement.value
        if is_method(call, "update"):  # scaler.update()
            return "" != receiver_code(call) == receiver_code(self.step.node)
        own = last_name(call.func) in (*CLIPS, "unscale_") or is_zero_grad(statement)
        return own or is_method(call, "step")

    def reads(self, name: str) -> bool:
        """Whether the loop has a use for the variable but to clip gradients by it."""
        used = (at for at in ast.walk(self.node) if isinstance(at, ast.Name) and at.id == name)
        return any(
            isinstance(at.ctx, ast.Load) and not _clips(self.script.statement(at)) for at in used
        )


def _gives_norm(value: ast.expr) -> bool:
    """Whether `value` is what clipping gives, or a number of it: `clip_grad_norm_(...).item()`."""
    match value:
        case (
            ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="item" | "cpu" | "detach"))
            | ast.Call(func=ast.Name(id="float"), args=[ast.Call() as inner])
        ):
            return _gives_norm(inner)
    return isinstance(value, ast.Call) and last_name(value.func) in CLIPS


def _clips(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return last_name(function) in CLIPS
    return False


def _parts_in(test: ast.expr) -> set[str]:
    """The names of the variables, attributes and entries in `test`."""
    keys = (at.slice for at in ast.walk(test) if isinstance(at, ast.Subscript))
    told = {str(at.value) for at in keys if isinstance(at, ast.Constant)}
    return told.union(*(code.split(".") for code in code_in(test)))


def receiver_code(call: ast.Call) -> str:
    """What a method is called of, in a form that is equal for equal code; "" for a function."""
    return ast.dump(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def own_nodes(loop: ast.For) -> Iterator[ast.AST]:
    """What runs in `loop` itself: functions defined in it do not."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
