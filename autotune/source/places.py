"""What stands at the places that a run was seen to pass: calls and statements, never guessed."""

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from autotune.source.edits import Place
from autotune.source.named import values_by_name
from autotune.source.program import Program, Refusal
from autotune.source.script import Script, covers, given_to, is_method, last_name

# Class names of torch.optim in torch 2.13.
OPTIMIZERS = frozenset(
    (
        *("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "Muon"),
        *("NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call in a file, with what it is, for the reasons of refusals."""

    script: Script
    node: ast.Call
    what: str

    @property
    def statement(self) -> ast.stmt:
        """The innermost statement that holds the call."""
        return self.script.statement(self.node)

    def refusal(self, reason: str, hand_step: str, kind: type[Refusal] = Refusal) -> Refusal:
        """A refusal with `hand_step` placed at this call."""
        return refusal(self.script, self.node.lineno, reason, hand_step, kind)


def refusal(
    script: Script, line: int, reason: str, hand_step: str, kind: type[Refusal] = Refusal
) -> Refusal:
    """A refusal whose hand step says where the code belongs."""
    return kind(reason, f"{script.path}:{line}: {hand_step}" if hand_step else "")


def loader_call(
    program: Program,
    hand_step: str,
    name: str = "DataLoader",
    *others: Callable[[ast.Call], bool],
) -> Call:
    """The call that builds the training DataLoader, of a class with this `name`, or else one that
    passes the first of these `others` that any does.

    Raises:
        Refusal: there is not exactly one at its place.
    """
    place = program.places.loader
    script, line = program.at(place, "the training DataLoader", hand_step)

    def named(call: ast.Call) -> bool:
        return script.qualified(call.func).rpartition(".")[2] == name

    def kin(call: ast.Call) -> bool:
        return last_name(call.func).endswith("Loader") or is_method(call, "__init__")

    missing = f"no call of {name} under that name stands on this line"
    found = _found(script, line, place, named, *others, kin)
    return _only(script, line, "DataLoader(...)", hand_step, found, missing)


def optimizer_call(
    program: Program, hand_step: str, index: int = 0, what: str = "the optimizer"
) -> Call:
    """The call that builds the leading optimizer, or with an `index` one of the others; `what` is
    looked for there, as a refusal says it.

    Raises:
        Refusal: there is not exactly one at its place.
    """
    place = (program.places.optimizer, *program.places.more_optimizers)[index]
    script, line = program.at(place, what, hand_step)

    def named(call: ast.Call) -> bool:
        return script.qualified(call.func).rpartition(".")[2] in OPTIMIZERS

    def of_torch(call: ast.Call) -> bool:
        codes = [script.code(call.func)]
        if isinstance(call.func, ast.Name):  # kind = getattr(torch.optim, name)
            codes += map(script.code, values_by_name(script).get(call.func.id, ()))
        return bool(call.args) and any("optim" in code.lower() for code in codes)

    def of_parameters(call: ast.Call) -> bool:
        given = given_to(call)
        return any(is_method(value, "parameters") for value in given)

    found = _found(script, line, place, named, of_torch, of_parameters)
    one = _only(script, line, "call that builds the optimizer", hand_step, found)
    name = last_name(one.node.func)
    chosen = any(isinstance(at, ast.IfExp) for at in script.ancestors(one.node))
    alike = _calls_at(script, line, lambda call: last_name(call.func) == name)
    if len(alike) > 1 and not chosen:  # a run sees where a line builds some, and not how many
        raise one.refusal(f"this line builds several optimizers, each of {name}", hand_step)
    return one


def backward_call(program: Program, hand_step: str) -> Call:
    """The `loss.backward()`, a statement of its own, which may share its line.

    Raises:
        Refusal: it is not at its place, or not in that form.
    """
    found = _method_call(program, program.places.backward, "backward", hand_step)
    return _own_statement(found, hand_step)


def backward_and_step(program: Program, hand_step: str) -> tuple[Call, Call]:
    """The `loss.backward()` and the `optimizer.step()`, each on lines of its own.

    Raises:
        Refusal: one is not at its place, or not in that form.
    """
    found = backward_call(program, hand_step), step_call(program, hand_step)
    for call in found:
        if not call.script.owns_its_lines(call.statement):
            raise call.refusal(f"the {call.what} shares its line with other code", hand_step)
    return found


def step_call(program: Program, hand_step: str) -> Call:
    """The `optimizer.step()` or `scaler.step(optimizer)`, a statement of its own.

    Raises:
        Refusal: it is not at its place, or not in that form.
    """
    found = _method_call(program, program.places.step, "step", hand_step)
    return _own_statement(found, hand_step)


def zero_grad_call(program: Program, hand_step: str) -> Call:
    """The `optimizer.zero_grad()` or `model.zero_grad()`.

    Raises:
        Refusal: it is not at its place.
    """
    return _method_call(program, program.places.zero_grad, "zero_grad", hand_step)


def copy_calls(program: Program, place: Place, hand_step: str) -> list[Call]:
    """The copies to a device at `place`: `x.to(...)` and `x.cuda(...)`, at least one; none of what
    was computed of another of them, as `model(x.to(device)).to(back)` is.

    Raises:
        Refusal: there is none.
    """
    script, line = program.at(place, "the copy of the batch to the device", hand_step)
    found = _calls_at(script, line, lambda call: is_copy(script, call))
    if not found:
        raise refusal(script, line, "there is no .to(...) or .cuda() on this line", hand_step)
    first = [node for node in found if not _is_computed_of(script, node, found)]
    return [Call(script=script, node=node, what="copy") for node in first]


def is_copy(script: Script, call: ast.Call) -> bool:
    """Whether `call` is `x.to(...)` of a device, and not of a dtype alone, or `x.cuda(...)`."""
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("device", "other")]
    target = [*call.args, *named][:1]
    elsewhere = any(
        _is_host(script, at) or script.qualified(at).startswith("torch.")  # a dtype
        for at in target
    )
    return is_method(call, "cuda") or (is_method(call, "to") and bool(target) and not elsewhere)


def _is_host(script: Script, device: ast.expr) -> bool:
    """Whether `device` is the CPU, or a name that is given nothing else."""
    match device:
        case ast.Constant(value="cpu"):
            return True
        case ast.Call(func=function, args=[ast.Constant(value="cpu"), *_]):
            return last_name(function) == "device"
        case ast.Name(id=name):
            values = values_by_name(script).get(name, ())
            bound = [each for each in script.nodes if _binds(each, name)]
            alone = len(bound) == len(values) == 1 and not isinstance(values[0], ast.Name)
            return alone and _is_host(script, values[0])
    return False


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=own, ctx=ast.Store()) | ast.arg(arg=own):
            return own == name
    return False


def _is_computed_of(script: Script, copy: ast.Call, copies: Collection[ast.Call]) -> bool:
    """Whether what `copy` moves was computed, not by torch, of another of these `copies`."""
    moved = copy.func.value if isinstance(copy.func, ast.Attribute) else copy.func
    return any(
        inner in copies
        for call in ast.walk(moved)
        if isinstance(call, ast.Call) and not script.qualified(call.func).startswith("torch.")
        for given in given_to(call)
        for inner in ast.walk(given)
    )


def _method_call(program: Program, place: Place | None, name: str, hand_step: str) -> Call:
    script, line = program.at(place, f"{name}()", hand_step)
    found = _found(script, line, place, lambda call: is_method(call, name))
    return _only(script, line, f".{name}(...)", hand_step, found)


def _own_statement(call: Call, hand_step: str) -> Call:
    statement = call.statement
    if not isinstance(statement, ast.Expr) or statement.value is not call.node:
        raise call.refusal(f"the {call.what} is part of a larger expression", hand_step)
    return call


def _calls_at(script: Script, line: int, accepts: Callable[[ast.Call], bool]) -> list[ast.Call]:
    """The accepted calls on `line`, those that span the fewest lines."""
    found = [
        node
        for node in script.nodes
        if isinstance(node, ast.Call) and covers(node, line) and accepts(node)
    ]
    extents = [(node.end_lineno or node.lineno) - node.lineno for node in found]
    return [at for at, extent in zip(found, extents, strict=True) if extent == min(extents)]


def _found(
    script: Script, line: int, place: Place | None, *tests: Callable[[ast.Call], bool]
) -> list[ast.Call]:
    """The calls on `line` that pass the first of `tests` that any does; the one at its column."""
    for accepts in tests:
        if found := _calls_at(script, line, accepts):
            column = place.column if place else None
            exact = [at for at in found if (at.lineno, at.col_offset) == (line, column)]
            return exact or found
    return []


def _only(
    script: Script, line: int, what: str, hand_step: str, found: list[ast.Call], missing: str = ""
) -> Call:
    """The one call that is `found` on `line`; `missing` says that there is none."""
    if len(found) == 1:
        return Call(script=script, node=found[0], what=what)
    at = f"{Path(script.path).name}:{line}"
    reason = f"the source does not show which of several calls at {at} is the {what}"
    if not found:
        reason = missing or f"there is no {what} on this line"
    raise refusal(script, line, reason, hand_step)
