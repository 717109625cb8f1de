"""What a program could not do, or not the same, with its model as `ModelStatement` changed it."""

import ast

from autotune.source.calls.keywords import operand
from autotune.source.edits import ModelStatement
from autotune.source.places import Call
from autotune.source.program import Forbidden, Program
from autotune.source.refusals.compiled import why_not_compiled
from autotune.source.refusals.flat_writes import written_flat
from autotune.source.refusals.loads import mixed_up
from autotune.source.refusals.model_uses import handed_on, kept, merged
from autotune.source.refusals.own_gradients import gradients_given
from autotune.source.refusals.views import read_as_it_lies, saved_in_order, viewed_later

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
    if hindered := handed_on(program, call, model, edit.hinders):
        at = hindered.script.at(hindered.node)
        undone = edit.undone.replace("{model}", name)
        reason = f"the program may hand a model to {hindered.what} at {at}, which may not work so"
        raise call.refusal(reason, f"{hand_step}\nbefore {at}: {undone}")
    if edit.reordered and (at := merged(program)):
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
    if edit.replayed and (at := kept(program)):
        reason = f"what a model gives may be kept at {at}, and its next call may overwrite that"
        raise call.refusal(reason, f"{hand_step}\nat {at}: .clone() what is kept")
