"""Single calls of the training loop: copies to the device, and the clearing of gradients."""

import ast
from dataclasses import replace

from autotune.source.calls.called import called_models
from autotune.source.calls.keywords import Signature, drop_argument, set_argument
from autotune.source.edits import Place
from autotune.source.loops.loss import BACKWARDS
from autotune.source.named import calls_by_name
from autotune.source.places import Call, copy_calls, zero_grad_call
from autotune.source.program import Change, Forbidden, Program, Refusal, holds
from autotune.source.reach import calls_in
from autotune.source.refusals.left_out import left_out
from autotune.source.refusals.own_gradients import cleared_ones_read
from autotune.source.script import last_name, parameters

_COPY_BY_HAND = "x.to(device, non_blocking=True)"
_COPY = Signature(defaults={})
_LEFT_OUT = "parts of the model or of its loss may be left out in later steps"
_MOVED = "gradients of zeros can move weights, by momentum or weight decay, and none do not"
_CLEARED = "which may be zeros by then, and would be none"
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
    copies = copy_calls(program, place, _COPY_BY_HAND)
    changes = (_non_blocking(program, call) for call in copies)
    return next((some for some in changes if some), [])


def _non_blocking(program: Program, call: Call) -> list[Change]:
    given = [at.value for at in call.node.args if isinstance(at, ast.Constant)]
    flags = [value for value in given if isinstance(value, bool)]
    if flags:
        reason = "the copy is given non_blocking or copy without its name"
        raise call.refusal(reason, "non_blocking=True in this call")
    by_hand = "non_blocking=True in this call"
    if any(isinstance(at, ast.Starred) for at in call.node.args):
        raise call.refusal("the copy hands on what it is given", by_hand)
    changes = set_argument(call, "non_blocking", "True", _COPY, by_hand)
    if not (changes and _goes_anywhere(program, call)) or _is_of_numpy(_moved(call)):
        return changes
    if isinstance(_moved(call), ast.Name | ast.Attribute | ast.Subscript):
        moved = call.script.code(_moved(call))
        code = f"not {moved}.is_cuda"
        if _moves_models(program, call):  # which have no is_cuda
            code = f'not getattr({moved}, "is_cuda", True)'
        return set_argument(call, "non_blocking", code, _COPY, by_hand)
    reason = "the copy may be the way back to the host, where nothing waits for it"
    raise call.refusal(reason, f"{by_hand}, if it goes to the GPU alone")


def _moved(call: Call) -> ast.expr:
    assert isinstance(call.node.func, ast.Attribute)
    return call.node.func.value


def _is_of_numpy(moved: ast.expr) -> bool:
    """Whether it is an array's memory (`torch.from_numpy(x).float()`), on the host for certain."""
    match moved:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)):
            inner = name not in ("to", "cuda") and _is_of_numpy(owner)
            return name == "from_numpy" or inner
        case ast.Call(func=ast.Name(id=name)):
            return name == "from_numpy"
    return False


def _moves_models(program: Program, call: Call) -> bool:
    """Whether the function that copies is given a model elsewhere, or gives one."""
    function = call.script.function(call.node)
    for script in program.scripts.values():
        models = called_models(program, script)
        for at in calls_by_name(script).get(function.name, ()) if function else ():
            statement = script.statement(at)
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if any(ast.unparse(each) in models for each in (*at.args, *targets)):
                return True
    return False


def _goes_anywhere(program: Program, call: Call) -> bool:
    """Whether it copies to a device that its function is given: it may be the way back, too."""
    function = call.script.function(call.node)
    named = [each.value for each in call.node.keywords if each.arg == "device"]
    target = next(iter([*call.node.args, *named]), None)
    if function is None or not isinstance(target, ast.Name):
        return False
    given = set(parameters(function))
    trains = any(last_name(at.func) in BACKWARDS for at in calls_in(function))
    return target.id in given and not (trains or _is_in_training_loop(program, call))


def _is_in_training_loop(program: Program, call: Call) -> bool:
    """Whether a loop round the copy holds forward or backward as well."""
    script = call.script
    loops = [at for at in script.ancestors(call.node) if isinstance(at, ast.For | ast.While)]
    places = (program.places.forward, program.places.backward)
    return any(holds(script, loop, places) for loop in loops)


def zero_grad_to_none(program: Program) -> Program:
    """`program` with `zero_grad` at its default, which frees the gradients, wherever the file calls
    it of the same object.

    Raises:
        Forbidden: some weights may have no gradient in a later step, or where one is read.
        Refusal: gradients are not cleared by a call of `zero_grad`.
    """
    if place := left_out(program):
        raise Forbidden(f"{_LEFT_OUT} ({place}): {_MOVED}")
    call = zero_grad_call(program, "optimizer.zero_grad(set_to_none=True)")
    if place := cleared_ones_read(program, call):
        raise Forbidden(f"the program reads gradients at {place}, {_CLEARED}")
    owner = ast.unparse(call.node.func)
    alike = [
        replace(call, node=at)
        for at in ast.walk(call.script.tree)
        if isinstance(at, ast.Call) and ast.unparse(at.func) == owner
    ]
    changes = [drop_argument(each, "set_to_none", _ZERO_GRAD, "") for each in alike]
    return program.changed(change for some in changes for change in some)
