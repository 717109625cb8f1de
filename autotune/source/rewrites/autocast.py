"""Forward and loss under `torch.autocast`, with a gradient scaler where the numbers need one."""

import ast

from autotune.source.calls.keywords import (
    Signature,
    drop_argument,
    given_value,
    replaced,
    set_argument,
)
from autotune.source.edits import Autocast
from autotune.source.insertions import imports_added, snippet, under
from autotune.source.loops.forward import Span, backwards_in_loop, forward_span, runs_one_backward
from autotune.source.places import Call, backward_call, refusal
from autotune.source.program import Change, Forbidden, Program, Refusal
from autotune.source.refusals.arrays import given_to_numpy
from autotune.source.refusals.gathering import SAME_FORMAT, kept_outcome
from autotune.source.refusals.mixed_formats import put_in_a_branch
from autotune.source.refusals.short_numbers import (
    ZERO_IN_BFLOAT16,
    denormal_constant,
    rare_chance,
    running_values,
    small_error,
)
from autotune.source.rewrites.outputs import model_calls, outputs_in_float32
from autotune.source.rewrites.scaler import scaler_by_hand, with_scaler
from autotune.source.script import Script, last_name

_DEFAULTS = {"enabled": "True", "cache_enabled": "None"}
_AUTOCAST = Signature(
    positions=("device_type", "dtype", "enabled", "cache_enabled"), defaults=_DEFAULTS
)
_CUDA_AUTOCAST = Signature(positions=("enabled", "dtype", "cache_enabled"), defaults=_DEFAULTS)
_OWN_DTYPE = {"cuda": "float16", "cpu": "bfloat16"}  # what autocast uses where it is given none


def autocast(program: Program, edit: Autocast) -> Program:
    """`program` with forward and loss under autocast of `edit.dtype`.

    Raises:
        Refusal: they do not stand together in one block before backward, or a scaler has no place.
    """
    header = f'with torch.autocast(device_type="{edit.device_type}", dtype=torch.{edit.dtype}):'
    wide = ", .float() behind what models give" if edit.device_type == "cpu" else ""
    hand_step = f"{header} round forward and loss, up to backward{wide}{_likewise(program)}"
    if edit.scaled:
        hand_step = f"{hand_step}; {scaler_by_hand(program, edit.device_type)}"
    if at := put_in_a_branch(program):
        raise Forbidden(
            f"what a part of the model gives is put into another tensor at {at}, in a branch that "
            "a run need not come to: under autocast they may be of two formats, which torch may "
            "refuse",
            f"{at}: .to(...) with the other's dtype behind what the layer gives; {hand_step}",
        )
    if at := small_error(program):
        raise Forbidden(
            f"a loop of the training may end at {at} once what it computes (an error, say) is "
            f"below a bound: in {edit.dtype} it may come to that later, or never",
            f"a number of steps instead of the condition at {at}; {hand_step}",
        )
    _check_bfloat16(program, edit, hand_step)
    _existing(_span(program, hand_step, scaled=edit.scaled), edit, hand_step)  # in its own lines
    if edit.device_type == "cpu" or (edit.dtype == "bfloat16" and _keeps_outputs(program)):
        program = outputs_in_float32(program)
    span = _span(program, hand_step, scaled=edit.scaled)
    if _existing(span, edit, hand_step) is None:
        program = program.changed(_wrapped(span, header))
    else:
        program = _adapted(program, edit, hand_step)
    return with_scaler(program, edit.device_type, hand_step) if edit.scaled else program


def _check_bfloat16(program: Program, edit: Autocast, hand_step: str) -> None:
    """Refuse where NumPy would be given bfloat16, or what it loses shows in no loss so soon."""
    if edit.dtype != "bfloat16":
        return
    on_a_gpu = edit.device_type == "cuda"
    if at := given_to_numpy(program, on_a_gpu=on_a_gpu):
        raise Forbidden(
            f"what a module keeps of its forward pass may be given at {at} to NumPy, or to what "
            "takes its arrays, without .float(): NumPy has no bfloat16",
            f"{at}: .float() before that; {hand_step}",
        )
    if at := running_values(program, on_a_gpu=on_a_gpu):
        raise Forbidden(
            f"a module moves on at {at} what it has kept of an earlier forward pass: bfloat16, "
            "where it is kept in that, loses small steps",
            f"{at}: .float() of what is kept first; {hand_step}",
        )
    if at := denormal_constant(program, below=ZERO_IN_BFLOAT16):
        raise Forbidden(
            f"the number at {at} is 0 in bfloat16: what it keeps from being 0 (what a logarithm is "
            "taken of, say) may be 0 then",
            f"{at}: the tensor that it is added to in float32 (.float()); {hand_step}",
        )
    if at := rare_chance(program):
        raise Forbidden(
            f"a model compares random numbers at {at} that are drawn in the format of a tensor, "
            "or takes their logarithm: in bfloat16 there are 256 of them, and what is rare may "
            "come otherwise",
            f"{at}: torch.rand(h.shape, device=h.device) instead; {hand_step}",
        )


def _likewise(program: Program) -> str:
    """What a person would do besides: the other backward passes have a forward of their own."""
    seen = {(at.path, at.line) for at in program.places.backwards}
    leading = program.places.backward
    try:
        backward = backward_call(program, "")
    except Refusal:
        own = (leading.path, leading.line) if leading else ("", 0)
    else:
        own = (backward.script.path, backward.node.lineno)
        if not runs_one_backward(backward):
            seen |= {(own[0], call.lineno) for call in backwards_in_loop(backward)}
    others = ", ".join(f"{path}:{line}" for path, line in sorted(seen - {own}))
    return f", and the same for the backward at {others}" if others else ""


def _keeps_outputs(program: Program) -> bool:
    """Whether what a step's models give is kept: NumPy does not know bfloat16."""
    return any(
        kept_outcome(script, model_calls(program, script), SAME_FORMAT)
        for script in program.scripts.values()
    )


def _span(program: Program, hand_step: str, *, scaled: bool) -> Span:
    backward = backward_call(program, hand_step)
    if not runs_one_backward(backward) or len(program.places.backwards) > 1:
        raise backward.refusal("a step may run more than one backward pass", hand_step)
    if scaled and len(backwards_in_loop(backward)) > 1:
        reason = "a step may come to another backward pass instead, which would need the scaler too"
        raise backward.refusal(reason, hand_step)
    return forward_span(program, backward, hand_step)


def _wrapped(span: Span, header: str) -> list[Change]:
    given = [f", enabled={span.condition}"] if span.condition else []
    if span.frozen:  # older torch keeps what it has cast of weights without their gradients
        given.append(", cache_enabled=False")
    header = f"{header.removesuffix('):')}{''.join(given)}):"
    own = snippet(span.script, f"{header} pass")
    changes = under(
        span.script, span.statements[0], span.statements[-1], own.code.removesuffix(" pass")
    )
    imports = imports_added(span.script, own.imports, until=span.statements[0].lineno)
    return [*imports, *changes]


def _existing(span: Span, edit: Autocast, hand_step: str) -> Call | None:
    """The autocast that the statements run under, or that they enter; one that is for CUDA only
    does nothing elsewhere.

    Raises:
        Refusal: there are several, or one behind a variable.
    """
    script = span.script
    around = script.statements_to(span.statements[0])[1:]
    inside = [node for at in span.statements for node in ast.walk(at)]
    opened = [at for at in (*around, *inside) if isinstance(at, ast.With)]
    found = []
    for context in (item.context_expr for at in opened for item in at.items):
        if isinstance(context, ast.Call) and _is_autocast(context):
            found.append(Call(script=script, node=context, what="autocast"))
            if not script.qualified(context.func).startswith("torch."):
                reason = f"forward runs under {script.code(context)}, not seen to be torch's own"
                raise found[-1].refusal(reason, hand_step)
        elif _may_be_autocast(script, script.binds(last_name(context))):
            own = script.code(context)
            reason = f"forward runs under {own}, which may be an autocast"
            raise refusal(script, context.lineno, reason, f"instead of {own}: {hand_step}")
    elsewhere = edit.device_type != "cuda"
    found = [
        call
        for call in found
        if not _is_off(call) and not (elsewhere and _signature(call) is _CUDA_AUTOCAST)
    ]
    if len(found) > 1:
        raise found[1].refusal("forward and loss may run under more than one autocast", hand_step)
    return found[0] if found else None


def _adapted(program: Program, edit: Autocast, hand_step: str) -> Program:
    """`program` with the autocast that it has set to what `edit` asks."""
    for change in (_with_device, _with_dtype, _enabled, _uncached):
        span = _span(program, hand_step, scaled=edit.scaled)
        call = _existing(span, edit, hand_step)
        assert call is not None
        program = program.changed(change(call, span, edit, hand_step))
    return program


def _with_device(call: Call, _span: Span, edit: Autocast, _: str) -> list[Change]:
    if _signature(call) is _CUDA_AUTOCAST:
        return []
    value = given_value(call, "device_type", _AUTOCAST)
    literal = isinstance(value, ast.Constant)
    return replaced(call.script, value, f'"{edit.device_type}"') if value and literal else []


def _with_dtype(call: Call, _: Span, edit: Autocast, hand_step: str) -> list[Change]:
    given = given_value(call, "dtype", _signature(call))
    if given is None and _OWN_DTYPE.get(edit.device_type) == edit.dtype:
        return []
    own = snippet(call.script, f"torch.{edit.dtype}")
    changes = set_argument(call, "dtype", own.code, _signature(call), hand_step)
    if not changes:
        return []
    return [*imports_added(call.script, own.imports, until=call.node.lineno), *changes]


def _enabled(call: Call, span: Span, _: Autocast, hand_step: str) -> list[Change]:
    """Always, or in training alone."""
    if span.condition:
        return set_argument(call, "enabled", span.condition, _signature(call), hand_step)
    if _is_on(call):
        return []
    return drop_argument(call, "enabled", _signature(call), hand_step)


def _uncached(call: Call, span: Span, _: Autocast, hand_step: str) -> list[Change]:
    if not span.frozen:
        return []
    return set_argument(call, "cache_enabled", "False", _signature(call), hand_step)


def _signature(call: Call) -> Signature:
    old = call.script.qualified(call.node.func).endswith("cuda.amp.autocast")
    return _CUDA_AUTOCAST if old else _AUTOCAST


def _is_autocast(context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and last_name(context.func) == "autocast"


def _is_on(call: Call) -> bool:
    given = given_value(call, "enabled", _signature(call))
    return given is None or (isinstance(given, ast.Constant) and given.value is True)


def _is_off(call: Call) -> bool:
    given = given_value(call, "enabled", _signature(call))
    return isinstance(given, ast.Constant) and given.value is False


def _may_be_autocast(script: Script, values: list[ast.expr]) -> bool:
    """Whether a variable of these `values` held an autocast in the run that was seen, which may
    have been switched off: one more round it would do nothing.

    Where it can hold `nullcontext()` instead, that run had this, unless the autocast is told
    whether it is on: one more is in effect round it, and leaves the program's own the last word
    where that is chosen.
    """
    made = [at for value in values for at in ast.walk(value) if isinstance(at, ast.Call)]
    found = [Call(script=script, node=at, what="autocast") for at in made if _is_autocast(at)]
    chosen = "nullcontext" in {last_name(at.func) for at in made}
    return any(not chosen or not _is_on(each) for each in found)
