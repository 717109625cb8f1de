"""Single calls of the training loop: copies to the device, and the clearing of gradients."""

import ast
from dataclasses import replace

from autotune.source.edits import Place
from autotune.source.forward import BACKWARDS
from autotune.source.keywords import Signature, drop_argument, set_argument
from autotune.source.places import Call, copy_calls, zero_grad_call
from autotune.source.program import Change, Program, Refusal
from autotune.source.script import last_name

_COPY_BY_HAND = "x.to(device, non_blocking=True)"
_COPY = Signature(defaults={})
_ZERO_GRAD = Signature(positions=("set_to_none",), defaults={"set_to_none": "True"})


def non_blocking_copies(program: Program) -> Program:
    """`program` with every copy of the batch to the device saying `non_blocking=True`, or none.

    Raises:
        Refusal: one of them cannot be told to.
    """
    if not program.places.copies:
        raise Refusal("no copy of a batch to the device was seen", _COPY_BY_HAND)
    for index in range(len(program.places.copies)):
        # Each change makes new trees, so the calls are looked up again.
        while changes := _next_copy(program, program.places.copies[index]):
            program = program.changed(changes)
    return program


def _next_copy(program: Program, place: Place) -> list[Change]:
    """What changes the first copy at `place` that waits; nothing where none does."""
    changes = map(_non_blocking, copy_calls(program, place, _COPY_BY_HAND))
    return next((some for some in changes if some), [])


def _non_blocking(call: Call) -> list[Change]:
    given = [at.value for at in call.node.args if isinstance(at, ast.Constant)]
    flags = [value for value in given if isinstance(value, bool)]
    if flags:
        reason = "the copy is given non_blocking or copy without its name"
        raise call.refusal(reason, "non_blocking=True in this call")
    by_hand = "non_blocking=True in this call"
    if any(isinstance(at, ast.Starred) for at in call.node.args):
        raise call.refusal("the copy hands on what it is given", by_hand)
    code = f"not {call.script.code(_moved(call))}.is_cuda" if _goes_anywhere(call) else "True"
    return set_argument(call, "non_blocking", code, _COPY, by_hand)


def _moved(call: Call) -> ast.expr:
    assert isinstance(call.node.func, ast.Attribute)
    return call.node.func.value


def _goes_anywhere(call: Call) -> bool:
    """Whether the copy is to a device that its function is given, for a tensor of a name: it may be
    the way back to the host as well, where nothing waits for the copy.
    """
    function = call.script.function(call.node)
    target = next(iter(call.node.args), None)
    if function is None or not isinstance(target, ast.Name):
        return False
    given = {at.arg for at in ast.walk(function.args) if isinstance(at, ast.arg)}
    inside = [at for at in ast.walk(function) if isinstance(at, ast.Call)]
    trains = any(last_name(at.func) in BACKWARDS for at in inside)
    loops = any(isinstance(at, ast.For | ast.While) for at in call.script.ancestors(call.node))
    named = isinstance(_moved(call), ast.Name | ast.Attribute | ast.Subscript)
    return target.id in given and named and not (loops or trains)


def zero_grad_to_none(program: Program) -> Program:
    """`program` with `zero_grad` at its default, which frees the gradients, wherever the file calls
    it of the same object.

    Raises:
        Refusal: gradients are not cleared by a call of `zero_grad`.
    """
    call = zero_grad_call(program, "optimizer.zero_grad(set_to_none=True)")
    owner = ast.unparse(call.node.func)
    alike = [
        replace(call, node=at)
        for at in ast.walk(call.script.tree)
        if isinstance(at, ast.Call) and ast.unparse(at.func) == owner
    ]
    changes = [drop_argument(each, "set_to_none", _ZERO_GRAD, "") for each in alike]
    return program.changed(change for some in changes for change in some)
