"""What a program could not do, or not the same, with its model as `ModelStatement` changed it."""

import ast
import re
from collections.abc import Collection

from autotune.source.calls.keywords import operand
from autotune.source.edits import ModelStatement
from autotune.source.places import Call
from autotune.source.program import Forbidden, Program, holds
from autotune.source.refusals.compiled import why_not_compiled
from autotune.source.refusals.flat_writes import written_flat
from autotune.source.refusals.gathering import SAME_MEMORY, kept_outcome, merged_outcome
from autotune.source.refusals.loads import mixed_up
from autotune.source.refusals.own_gradients import gradients_given
from autotune.source.refusals.views import read_as_it_lies, saved_in_order, viewed_later
from autotune.source.script import Function, Script, given_to, last_name, names_in

# Where no weights may be channels last: what is found, what is said of it, and what to do by hand.
_OF_ANOTHER_ORDER = (
    (
        viewed_later,
        (
            "a view at {at} may merge dimensions of a tensor, which torch refuses of some that are "
            "channels last; the steps that are tried need not come to it"
        ),
        "at {at}: .reshape(...) instead of .view(...)",
    ),
    (
        saved_in_order,
        "tensors are saved at {at} with safetensors, which refuses any that lie in another order",
        "at {at}: .contiguous() of each tensor",
    ),
    (
        read_as_it_lies,
        (
            "a tensor's memory may be read at {at} as it lies: of one that is channels last the "
            "numbers come in another order"
        ),
        "at {at}: .contiguous() before it",
    ),
    (
        written_flat,
        (
            "a tensor may be written into at {at} through what flattens it (reshape, flatten, "
            "contiguous): of one that is channels last that may be a copy, and the tensor itself "
            "stays as it was"
        ),
        "at {at}: .view(...) instead, which fails there",
    ),
)
_SAVING = "torch.save"
# What gives the model itself.
_ITSELF = frozenset(
    (
        *("module", "_orig_mod", "cpu", "cuda", "to", "eval", "train", "requires_grad_"),
        *("half", "float", "double", "bfloat16"),
    )
)
_OPTIONS = re.compile(
    r"(^|_)(args?|opts?|options|cfg|conf|config|flags|hparams|params)$", re.IGNORECASE
)


def check_program(program: Program, edit: ModelStatement) -> None:
    """Refuse where the program could not do with any changed model what it does later on.

    Raises:
        Forbidden: so it is, wherever the statement would stand; with what it does and where.
    """
    for find, reason, by_hand in _OF_ANOTHER_ORDER if edit.reordered else ():
        if at := find(program):
            raise Forbidden(reason.format(at=at), by_hand.format(at=at))
    if edit.compiled and (reason := why_not_compiled(program)):
        raise Forbidden(reason)


def check_uses(
    program: Program, edit: ModelStatement, call: Call, model: ast.expr, hand_step: str
) -> None:
    """Refuse where the program does with the model what it could not do with the changed one.

    Raises:
        Refusal: it does, with what it is and where.
    """
    name = operand(call.script, model)
    if hindered := _handed_on(program, call, model, edit.hinders):
        at = hindered.script.at(hindered.node)
        undone = edit.undone.replace("{model}", name)
        reason = f"the program may hand a model to {hindered.what} at {at}, which may not work so"
        raise call.refusal(reason, f"{hand_step}\nbefore {at}: {undone}")
    if edit.reordered and (at := _merged(program)):
        reason = f"what a model gives is viewed at {at}, which torch may refuse of channels last"
        raise call.refusal(reason, f"{hand_step}\nat {at}: .reshape(...) instead of .view(...)")
    if edit.reordered and (at := gradients_given(program)):
        reason = (
            f"a gradient is set at {at}, which may lie in the usual order: an optimizer that goes "
            "through weights and gradients as they lie in memory, as a fused one does, would then "
            "mix up which is whose"
        )
        by_hand = f"{hand_step}\nat {at}: .contiguous(memory_format=torch.channels_last) of those"
        raise call.refusal(reason, by_hand, Forbidden)
    if edit.reordered and (reason := mixed_up(program, [call])):
        raise call.refusal(reason, hand_step, Forbidden)
    if edit.replayed and (at := _kept(program)):
        reason = f"what a model gives may be kept at {at}, and its next call may overwrite that"
        raise call.refusal(reason, f"{hand_step}\nat {at}: .clone() what is kept")


def _handed_on(
    program: Program, optimizer: Call, model: ast.expr, names: Collection[str]
) -> Call | None:
    """The first call after `optimizer` by `names` that is given a model (torch.save: this one)."""
    made = {at.name for _, at in program.nodes() if isinstance(at, Function | ast.ClassDef)}
    for script, call in program.calls():
        given = given_to(call)[:1]
        name = {script.qualified(call.func), last_name(call.func)} & set(names)
        if not (given and name) or _is_earlier(script, call, optimizer):
            continue
        is_model = bool(names_in(given[0]) - made)
        if _SAVING in name:
            is_model = _holds(script, given[0], last_name(model))
        if is_model:
            return Call(script=script, node=call, what=name.pop())
    return None


def _holds(script: Script, given: ast.expr, model: str) -> bool:
    """Whether `given` has what goes by the name of `model`, and no part of it, or its weights."""
    for node in ast.walk(given):
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) == model != "":
            is_option = isinstance(node, ast.Attribute) and _OPTIONS.search(last_name(node.value))
            if not is_option and _gives_itself(script, node):
                return True
    return False


def _gives_itself(script: Script, model: ast.expr) -> bool:
    """Whether what stands round `model` comes to the model itself, as far as names tell."""
    part: ast.AST = model
    for above in script.ancestors(model):
        match above:
            case ast.Attribute(attr=name) if name not in _ITSELF:
                return False
            case ast.IfExp(test=test) if test is part:
                return False
            case ast.Attribute() | ast.Call() | ast.IfExp() | ast.Subscript():
                part = above
            case _:
                return not isinstance(above, ast.FormattedValue)
    return True


def _is_earlier(script: Script, call: ast.Call, optimizer: Call) -> bool:
    """Whether `call` stands before `optimizer` in one function."""
    beside = script is optimizer.script and script.function(call) is script.function(optimizer.node)
    return beside and call.lineno < optimizer.node.lineno


def _merged(program: Program) -> str:
    """Where, outside of the training loop, a model's images are viewed with channels merged."""
    places = program.places.outputs
    names = {each.callee.rpartition(".")[2] for each in places if each.images}
    for script in program.scripts.values():
        calls = [
            call
            for call in script.calls
            if last_name(call.func) in names and not holds(script, call, places)
        ]
        if found := merged_outcome(script, calls):
            return script.at(found)
    return ""


def _kept(program: Program) -> str:
    """Where the program keeps, as it is, what a model gives that training calls."""
    names = {each.callee.rpartition(".")[2] for each in program.places.outputs}
    for script in program.scripts.values():
        calls = [call for call in script.calls if last_name(call.func) in names]
        if found := kept_outcome(script, calls, SAME_MEMORY):
            return script.at(found)
    return ""
