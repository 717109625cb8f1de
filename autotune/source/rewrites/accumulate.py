"""Micro-batches: the loader gives smaller batches, and the optimizer steps after several of them.

The step is the one that the whole batch would have made, the last batch of an epoch included: each
micro-batch's loss, a mean over its own samples, is weighed by its share of the batch's samples, as
the length of the loader's sampler tells it. A loader that drops its last incomplete batch drops all
the micro-batches of it.
"""

import ast
from collections.abc import Sequence

from autotune.source.calls.building import LOADER
from autotune.source.calls.keywords import given_value, operand, set_argument
from autotune.source.calls.spreads import holder_of, may_hide
from autotune.source.edits import Accumulate
from autotune.source.insertions import at_top, under
from autotune.source.loops.late_terms import late_term
from autotune.source.loops.lengths import counts_batches
from autotune.source.loops.loop import TrainingLoop, put_off
from autotune.source.loops.loss import adds_up_at
from autotune.source.loops.other_loaders import builds_several, other_loaders, wrapper_of
from autotune.source.loops.training_loop import training_loop
from autotune.source.places import Call, loader_call, step_call
from autotune.source.program import Change, Program, holds, replacing, wrapping
from autotune.source.rewrites.scaler import is_scaled, loss_as
from autotune.source.script import is_none

_STACKING = ("default_collate", "default_data_collator")  # torch's own, and transformers'
_NAMES = ("micro_step", "micro_size", "samples_left", "group_size", "share")


def accumulate(program: Program, edit: Accumulate) -> Program:
    """`program` with each batch trained as `edit.steps` micro-batches.

    Raises:
        Refusal: the loop or the loader is not in the usual form.
    """
    steps, hand_step = edit.steps, _by_hand(edit)
    if _accumulates_already(program, steps, hand_step):
        return program
    loop = training_loop(program, hand_step)
    if program.places.loader_class is not None:
        reason = "the loader is of a class of the program's own"
        raise loop.backward.refusal(reason, hand_step)
    call = loader_call(program, hand_step)
    if edit.shared or builds_several(program, call):
        raise call.refusal("this line builds other loaders as well", hand_step)
    _check_meaning(program, loop, call, hand_step)
    batch_size = _divided(call, steps, hand_step)
    drops_last = _drops_last(call, hand_step)
    if edit.drop_last not in (None, drops_last):
        raise call.refusal("the loader was seen to treat its last batch otherwise", hand_step)
    if _collates(call):
        reason = "the loader's collate_fn may make of a smaller batch what is no part of the whole"
        raise loop.backward.refusal(reason, _split_by_hand(steps))
    changes = _loop_changes(loop, steps, drops_last)
    program = program.changed(changes)
    call = loader_call(program, hand_step)
    return program.changed(set_argument(call, "batch_size", batch_size, LOADER, hand_step))


def _by_hand(edit: Accumulate) -> str:
    """What a person would write: the lines that are written here, with names of their own."""
    steps, (index, *names) = edit.steps, _NAMES
    top = [f"if {index} >= len(loader) // {steps} * {steps}: break"]
    weight, ready = f"/ {steps}", f"if ({index} + 1) % {steps} == 0:"
    if not edit.drop_last:
        top = _weighing("loader", index, steps, names)
        weight, ready = f"* {names[-1]}", f"{ready[:-1]} or {index} + 1 == len(loader):"
    lines = [
        *top,
        f"(loss {weight}).backward()",
        ready,
        "    what clips gradients, optimizer.step(), scheduler.step() and optimizer.zero_grad()",
    ]
    divided = f"divide the DataLoader's batch_size by {steps}"
    return "\n    ".join([f"{divided}; for {index}, batch in enumerate(loader):", *lines])


def _accumulates_already(program: Program, steps: int, hand_step: str) -> bool:
    """Whether the optimizer steps after `steps` backward passes.

    Raises:
        Refusal: it steps after some of them, as another count has it.
    """
    step = step_call(program, hand_step)
    for holder in step.script.statements_to(step.node):
        if holds(step.script, holder, [program.places.backward]):
            return False  # what is round both says nothing of one without the other
        if not isinstance(holder, ast.If):
            continue
        asked = list(ast.walk(holder.test))
        if any(isinstance(at, ast.BinOp) and isinstance(at.op, ast.Mod) for at in asked):
            otherwise = any(step.node in ast.walk(at) for at in holder.orelse)
            if not otherwise and any(_is_each(at, steps) for at in asked):
                return True
            reason = f"whether the optimizer steps goes by {ast.unparse(holder.test)}"
            raise step.refusal(reason, hand_step)
    return False


def _is_each(test: ast.AST, steps: int) -> bool:
    """Whether `test` holds once in so many `steps`: `(i + 1) % 4 == 0`."""
    match test:
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=ast.Constant(by)), ops=[ast.Eq()]):
            return by == steps
    return False


def _check_meaning(program: Program, loop: TrainingLoop, call: Call, hand_step: str) -> None:
    """Refuse where smaller batches would mean another training."""
    if wrapper := wrapper_of(program, loop, call):
        reason = f"the loop goes over what {ast.unparse(wrapper.func)} makes of the loader"
        raise call.refusal(reason, hand_step)
    if reason := other_loaders(program, loop, call):
        raise call.refusal(reason, hand_step)
    if at := adds_up_at(program, loop.node, loop.backward):
        reason = f"the loss adds up at {at}, and may be a sum over samples, not a mean"
        raise loop.backward.refusal(reason, hand_step)
    if at := late_term(program, loop.backward, loop.node):
        reason = f"the condition at {at} may change the loss later, which no comparison would see"
        raise loop.backward.refusal(reason, hand_step)
    size = given_value(call, "batch_size", LOADER)
    if size is not None and not isinstance(size, ast.Constant):
        meant = call.script.meaning(size)
        for used in (at for at in ast.walk(loop.node) if isinstance(at, type(size))):
            if loop.script.meaning(used) == meant:
                reason = f"the loop itself uses the batch size at {loop.script.at(used)}"
                raise call.refusal(reason, hand_step)
    if counted := counts_batches(program, loop, call):
        reason = f"the program reckons with the number of the loader's batches at {counted}"
        if loop.schedulers:
            reason += ", and something else steps with every batch, as a scheduler does"
        raise loop.backward.refusal(reason, hand_step)


def _collates(call: Call) -> bool:
    """Whether batches may be more than stacked: smaller ones may then be no parts of the whole."""
    value = given_value(call, "collate_fn", LOADER)
    if value is None:
        return may_hide(call, "collate_fn")
    package, _, name = call.script.qualified(value).rpartition(".")
    stacks = name in _STACKING and package.partition(".")[0] in ("torch", "transformers")
    return not (stacks or is_none(value))


def _split_by_hand(steps: int) -> str:
    """What a person would write where the loader's batches stay what they are."""
    lines = [
        "leave the DataLoader as it is, and train each batch in parts:",
        "optimizer.zero_grad()",
        f"for part_x, part_y in zip(x.chunk({steps}), y.chunk({steps})):",
        "    loss = criterion(model(part_x), part_y)",
        "    (loss * (len(part_x) / len(x))).backward()",
        "optimizer.step()",
    ]
    return "\n    ".join(lines)


def _divided(call: Call, steps: int, hand_step: str) -> str:
    """The code of the micro-batches' size."""
    sampler = given_value(call, "batch_sampler", LOADER)
    size = given_value(call, "batch_size", LOADER)
    if sampler is not None and not is_none(sampler):
        raise call.refusal("the loader's batches come from a batch_sampler", hand_step)
    if size is None:
        if holder := holder_of(call, "batch_size"):
            return f'{holder}["batch_size"] // {steps}'
        raise call.refusal("it cannot be told which batch size the loader is given", hand_step)
    if not isinstance(size, ast.Constant):
        return f"{operand(call.script, size)} // {steps}"
    if not isinstance(size.value, int) or size.value % steps:
        reason = f"the batch size {size.value!r} is not a multiple of {steps}"
        raise call.refusal(reason, hand_step)
    return str(size.value // steps)


def multiples(program: Program, edit: Accumulate) -> str:
    """For which batch sizes `edit` is the same training, where that is an option; else ""."""
    size = _divided(loader_call(program, ""), edit.steps, "").removesuffix(f" // {edit.steps}")
    same = f"it is the same training where {' '.join(size.split())} is a multiple of {edit.steps}"
    return "" if size.isdecimal() else same


def _drops_last(call: Call, hand_step: str) -> bool:
    value = given_value(call, "drop_last", LOADER)
    if value is None and not may_hide(call, "drop_last"):
        return False
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return value.value
    raise call.refusal("it cannot be told whether the loader drops its last batch", hand_step)


def _loop_changes(loop: TrainingLoop, steps: int, drops_last: bool) -> list[Change]:
    script = loop.script
    index, *names = map(script.free_name, _NAMES)
    index = loop.index or index
    changes = [] if loop.index else _counted(loop, index)
    loader = script.code(loop.loader)
    ready = f"({index} + 1) % {steps} == 0"
    if drops_last:
        top = [
            f"if {index} >= len({loader}) // {steps} * {steps}:",
            "    break  # the loader drops its last batch: all the micro-batches of it",
        ]
        weight = f"/ {steps}"
    else:
        ready += f" or {index} + 1 == len({loader})"
        top = [
            f"# {steps} micro-batches make one step, each weighed by its share of their samples.",
            *_weighing(loader, index, steps, names),
        ]
        weight = f"* {names[-1]}"
    changes.append(at_top(script, loop.node, top))
    for clear in loop.clears:
        changes += under(script, clear, clear, f"if {index} % {steps} == 0:")
    changes += _weighed(loop.backward, weight)
    for run in loop.runs:
        changes += under(script, run[0], run[-1], f"if {ready}:")
    return [*changes, *put_off(loop, ready)]


def _weighing(loader: str, index: str, steps: int, names: Sequence[str]) -> list[str]:
    """Lines that give the last of `names` this micro-batch's share of its group's samples."""
    size, left, group, share = names
    return [
        f"{size} = {loader}.batch_size",
        f"{left} = len({loader}.sampler) - {size} * {index}",
        f"{group} = min({size} * {steps}, {left} + {size} * ({index} % {steps}))",
        f"{share} = min({size}, {left}) / {group}",
    ]


def _counted(loop: TrainingLoop, index: str) -> list[Change]:
    """`for x, y in loader` as `for index, (x, y) in enumerate(loader)`."""
    script, target, source = loop.script, loop.node.target, loop.node.iter
    code = script.code(target)
    bare = isinstance(target, ast.Tuple) and script.start(target) == script.start(target.elts[0])
    if bare:
        code = f"({code})"
    return [
        replacing(script, target, f"{index}, {code}"),
        *wrapping(script, source, "enumerate(", ")"),
    ]


def _weighed(backward: Call, weight: str) -> list[Change]:
    """The loss of `backward` with `weight` ("/ 2") behind it, inside a `scaler.scale(...)`."""
    script, function = backward.script, backward.node.func
    assert isinstance(function, ast.Attribute)
    if is_scaled(backward) and isinstance(function.value, ast.Call):
        loss = function.value.args[0]
        return [replacing(script, loss, f"{operand(script, loss)} {weight}")]
    return [loss_as(backward, f"({operand(script, function.value)} {weight})")]
