"""Which statements compute the loss: from the one that runs forward to the last before backward."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.source.loops.around_training import running
from autotune.source.loops.condition import training_condition
from autotune.source.loops.loss import (
    BACKWARDS,
    WITHOUT_GRADIENTS,
    given_names,
    loss_names,
    receiver_of,
)
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import CALLED, callers, calls_in, reached
from autotune.source.script import Function, Script, covers, is_method, last_name, names_in

# What is called of a loss that is there already.
_REDUCING = frozenset({"float", "item", "len", "mean", "scale", "stack", "sum", "values"})
_VALUES = frozenset({"item", "detach"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Siblings of one block, in order, that hold the whole of forward and loss.

    `condition` is the code of that under which they are trained on, where they are also evaluated
    in the same block (`if phase == "train": loss.backward()`). `frozen` says that a part of them
    may run without gradients.
    """

    script: Script
    statements: list[ast.stmt]
    condition: str
    frozen: bool


def forward_span(program: Program, backward: Call, hand_step: str) -> Span:
    """The statements from the one that runs forward to the last before `backward`; that of a
    teacher, which has no gradients, comes first where it stands before it in their block, or what
    is given a value there runs it.

    Where forward lies in another function, the statement that comes to call that function counts.

    Raises:
        Refusal: forward was not seen, or does not stand before backward in one block.
    """
    script = backward.script
    first, holder = _first_and_holder(program, backward, hand_step)
    _check_way_in(backward, holder, hand_step)
    block = script.block(first)
    begin = min(block.index(first), _frozen_index(program, script, block))
    before = block[begin : block.index(holder)]
    makes_loss = [_makes_loss(at, backward) for at in before]
    statements = before
    if any(makes_loss):
        statements = before[: len(before) - makes_loss[::-1].index(True)]
    if not (script.owns_its_lines(statements[0]) and script.owns_its_lines(statements[-1])):
        raise backward.refusal("forward or loss shares its line with other code", hand_step)
    return Span(
        script=script,
        statements=statements,
        condition=training_condition(backward, holder, before, hand_step),
        frozen=_may_be_frozen(program, statements),
    )


def _first_and_holder(
    program: Program, backward: Call, hand_step: str
) -> tuple[ast.stmt, ast.stmt]:
    """The statement that runs forward, and its sibling that holds `backward`."""
    script = backward.script
    forward_script, line = program.at(program.places.forward, "forward", hand_step)
    function = script.function(backward.node)
    first = _innermost(forward_script, line)
    if first is None:
        raise backward.refusal(f"there is no statement at line {line}", hand_step)
    if forward_script is script and script.function(first) is function:
        pair = _siblings(script, first, backward)
    else:
        pair = _calling_sibling(program, forward_script.function(first), backward)
    if pair is None:
        runs_at = f"{Path(forward_script.path).name}:{line}"
        reason = f"of the statements before backward in its block none was found to run {runs_at}"
        raise backward.refusal(reason, hand_step)
    return pair


def _makes_loss(statement: ast.stmt, backward: Call) -> bool:
    """Whether `statement` gives a value to what `backward` is called on."""
    stored = {
        ast.unparse(at)
        for at in ast.walk(statement)
        if isinstance(at, ast.Attribute) and isinstance(at.ctx, ast.Store)
    }
    read = ast.walk(receiver_of(backward))
    attributes = {ast.unparse(at) for at in read if isinstance(at, ast.Attribute)}
    return bool(_given_inside(statement) & loss_names(backward) or stored & attributes)


def _may_be_frozen(program: Program, statements: list[ast.stmt]) -> bool:
    """Whether `statements`, or what of the program they come to call, turn gradients off."""
    return any(
        isinstance(at, ast.Name | ast.Attribute) and last_name(at) in WITHOUT_GRADIENTS
        for node in reached(program, statements)
        for part in (node.body if isinstance(node, ast.ClassDef) else [node])
        if part is node or (isinstance(part, Function) and part.name in CALLED)
        for at in ast.walk(part)
    )


def _frozen_index(program: Program, script: Script, block: list[ast.stmt]) -> int:
    """Where in `block` a model runs without gradients, or a value is given by running one."""
    place = program.places.frozen
    if place is None or place.path not in program.scripts:
        return len(block)
    frozen = _innermost(program.scripts[place.path], place.line)
    here = (
        index
        for index, at in enumerate(block)
        if (place.path == script.path and covers(at, place.line))
        or (isinstance(at, ast.Assign) and frozen in running(program, [at]))
    )
    return next(here, len(block))


def is_zero_grad(statement: ast.stmt) -> bool:
    """Whether `statement` is `something.zero_grad(...)`."""
    return isinstance(statement, ast.Expr) and is_method(statement.value, "zero_grad")


def backwards_in_loop(backward: Call) -> list[ast.Call]:
    """The calls of a `backward` in the innermost loop round it, or in its function."""
    script = backward.script
    loops = ast.For | ast.While | ast.AsyncFor | Function | ast.Module
    around = next(at for at in script.ancestors(backward.node) if isinstance(at, loops))
    return [call for call in calls_in(around) if last_name(call.func) in BACKWARDS]


def runs_one_backward(backward: Call) -> bool:
    """Whether a step comes by no other `backward`, as far as the text tells."""
    script = backward.script
    around = list(script.ancestors(backward.node))
    for call in backwards_in_loop(backward):
        above = list(script.ancestors(call))
        shared = next(at for at in above if at in around)
        defined = any(isinstance(at, Function) for at in above[: above.index(shared)])
        if call is not backward.node and not (defined or _in_two_branches(shared, around, above)):
            return False
    return True


def _in_two_branches(shared: ast.AST, one: list[ast.AST], other: list[ast.AST]) -> bool:
    if not isinstance(shared, ast.If):
        return False
    inside = (at[at.index(shared) - 1] for at in (one, other))
    return len({each in shared.orelse for each in inside}) == 2


def _innermost(script: Script, line: int) -> ast.stmt | None:
    """The smallest statement that covers `line`."""
    covering = [at for at in script.nodes if isinstance(at, ast.stmt) and covers(at, line)]
    return min(covering, key=lambda at: script.last_line(at) - at.lineno, default=None)


def _siblings(script: Script, first: ast.stmt, backward: Call) -> tuple[ast.stmt, ast.stmt] | None:
    """The statements of one block that hold `first` and `backward`, the deepest such pair."""
    for holder in script.statements_to(backward.node):
        block = script.block(holder)
        for candidate in script.statements_to(first):
            if candidate in block and block.index(candidate) < block.index(holder):
                return candidate, holder
    return None


def _calling_sibling(
    program: Program, function: Function | None, backward: Call
) -> tuple[ast.stmt, ast.stmt] | None:
    """The first statement that leads to `function` on the way to the loss, and backward's own."""
    if function is None:
        return None
    known = callers(program, function.name)
    script = backward.script
    for holder in script.statements_to(backward.node):
        block = script.block(holder)
        found = [
            at
            for at in block[: block.index(holder)]
            if any(last_name(call.func) in known for call in calls_in(at))
        ]
        if found:
            leading = _leading_to(backward, block[: block.index(holder)])
            always = [at for at in found if not isinstance(at, ast.If)]
            return next(iter([at for at in found if at in leading] or always or found)), holder
    return None


def _leading_to(backward: Call, block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of `block` that give variables a value which the loss comes from."""
    needed = loss_names(backward)
    found = []
    for statement in reversed(block):
        if _given_inside(statement) & needed:
            found.append(statement)
            needed |= names_in(statement)
    return found


def _given_inside(statement: ast.stmt) -> set[str]:
    """The variables that `statement`, or one in it, gives a value or adds to."""
    inside = (at for at in ast.walk(statement) if isinstance(at, ast.stmt))
    return set[str]().union(*map(given_names, inside))


def _check_way_in(backward: Call, holder: ast.stmt, hand_step: str) -> None:
    """Refuse where `holder`, which holds backward, computes more of the loss on the way to it."""
    script = backward.script
    inner = script.statements_to(backward.node)
    losses = set(_parts_of_loss(backward))
    for statement in inner[: inner.index(holder)]:
        block = script.block(statement)
        before = block[: block.index(statement)]
        if not all(_leaves_alone(script, at, losses) for at in before):
            raise backward.refusal("the loss is computed on in the block of backward", hand_step)
    if any(isinstance(at, ast.For | ast.While) for at in inner[: inner.index(holder) + 1]):
        raise backward.refusal("backward runs in a loop of its own, after forward", hand_step)
    for call in calls_in(receiver_of(backward)):
        if last_name(call.func) not in _REDUCING:
            called = f"{script.code(call.func)}()"
            reason = f"the statement of backward calls {called}, which may compute the loss"
            raise backward.refusal(reason, hand_step)


def _parts_of_loss(backward: Call) -> Iterator[str]:
    """The code of the variables and attributes that backward is called on ("self.loss")."""
    script = backward.script
    for node in ast.walk(receiver_of(backward)):
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) not in script.imports:
            whole = not isinstance(next(script.ancestors(node)), ast.Attribute)
            if (whole or _has_method_called(script, node)) and not _is_called(script, node):
                yield ast.unparse(node)


def _leaves_alone(script: Script, statement: ast.stmt, losses: set[str]) -> bool:
    """Whether `statement` only takes the values of `losses`: `history.append(loss.item())`."""
    owners = {code.partition(".")[0] for code in losses if "." in code}
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in losses:
            above = next(script.ancestors(node))
            taken = isinstance(above, ast.Attribute) and above.attr in _VALUES
            if not (taken and _has_method_called(script, node)):
                return False
        elif isinstance(node, ast.Name) and node.id in owners:
            part = isinstance(next(script.ancestors(node)), ast.Attribute)
            if not part or _has_method_called(script, node):
                return False
    return True


def _has_method_called(script: Script, node: ast.AST) -> bool:
    """Whether a method of `node` is called there."""
    above = next(script.ancestors(node))
    return isinstance(above, ast.Attribute) and _is_called(script, above)


def _is_called(script: Script, node: ast.AST) -> bool:
    above = next(script.ancestors(node))
    return isinstance(above, ast.Call) and above.func is node
