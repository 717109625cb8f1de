"""A training loop: its statements, which of them belong to the optimizer's step, the ways out."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from autotune.source.insertions import after, before, under
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.forward import is_zero_grad
from autotune.source.loops.loss import CLIPS
from autotune.source.places import Call
from autotune.source.program import Change, replacing
from autotune.source.script import Function, Script, is_method, last_name

_EXITS = ast.Break | ast.Continue | ast.Return | ast.Yield | ast.YieldFrom
_LOOPS = ast.For | ast.While


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


def may_leave(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` can leave the loop or a batch in the midst of a group of micro-batches.

    By a condition that the loop does not change (`if args.dry_run: break`) it did not in the run,
    which took its steps; where it does, it can wait for the step of the group.
    """
    if not isinstance(node, _EXITS) or _is_of_inner_loop(loop, node):
        return False
    outer = next(at for at in loop.script.ancestors(node) if isinstance(at, ast.stmt))
    if not isinstance(outer, ast.If) or not loop.is_constant(outer.test):
        return True
    return not (_is_settled(loop, node) or _waits_there(loop, node) or _waits_below(loop, node))


def put_off(loop: TrainingLoop, ready: str) -> list[Change]:
    """What makes each way out that comes before the step of a group wait until that is `ready`."""
    script, body = loop.script, loop.node.body
    nodes = [at for at in own_nodes(loop.node) if isinstance(at, _EXITS)]
    nodes = [at for at in nodes if not _is_settled(loop, at)]
    there = {_way(loop, at)[-1] for at in nodes if _waits_there(loop, at)}
    changes = [change for at in there for change in under(script, at, at, f"if {ready}:")]
    below = [at for at in nodes if isinstance(at, ast.Break) and not _waits_there(loop, at)]
    if not below:
        return changes
    name = script.free_name("leaving", "leaving_loop")
    changes += [replacing(script, at, f"{name} = True") for at in below]
    changes.append(before(script, loop.node, [f"{name} = False"]))
    ready = f"({ready})" if " or " in ready else ready
    return [*changes, after(script, body[-1], [f"if {name} and {ready}:", "    break"])]


def _is_settled(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` leaves an inner loop alone, or does so for every batch, before a step."""
    way = _way(loop, node)
    goes_on = not isinstance(node, ast.Break | ast.Return)
    return _is_of_inner_loop(loop, node) or (
        _is_fixed(loop, way) and (goes_on or not _is_behind_step(loop, way))
    )


def _is_of_inner_loop(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` is a `break` or `continue` of a loop inside, and not in the `else` of one."""
    return isinstance(node, ast.Break | ast.Continue) and any(
        isinstance(around, _LOOPS) and at in around.body
        for at, around in pairwise(_way(loop, node))
    )


def _waits_there(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` may only come behind the step of a group as it may behind each step."""
    way = _way(loop, node)
    return _is_fixed(loop, way) and _is_behind_step(loop, way)


def _waits_below(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` is a `break` at the end of the body that comes by the first batch, if ever."""
    way = _way(loop, node)
    last = all(loop.script.block(at)[-1] is at for at in way)
    return isinstance(node, ast.Break) and last and _is_fixed(loop, way, of_first=True)


def _way(loop: TrainingLoop, node: ast.AST) -> list[ast.stmt]:
    """The statements from that of `node` up to the one in the loop's own body."""
    return list(takewhile(lambda at: at is not loop.node, loop.script.statements_to(node)))


def _is_behind_step(loop: TrainingLoop, way: list[ast.stmt]) -> bool:
    body = loop.node.body
    return body.index(way[-1]) > body.index(loop.step.statement)


def _is_fixed(loop: TrainingLoop, way: list[ast.stmt], *, of_first: bool = False) -> bool:
    """Whether each batch goes this `way` if one does, or, `of_first`, the first one does."""
    return all(
        isinstance(around, ast.If)
        and (
            loop.is_constant(around.test)
            or (of_first and at in around.body and _holds_at_first(loop, around.test))
        )
        for at, around in pairwise(way)
    )


def _holds_at_first(loop: TrainingLoop, test: ast.expr) -> bool:
    """Whether `test` holds for the first batch, as `i % 100 == 0` does."""
    match test:
        case ast.Compare(
            left=ast.BinOp(left=ast.Name(id=name), op=ast.Mod()),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            return name == loop.index
    return False
