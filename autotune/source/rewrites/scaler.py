"""A gradient scaler round backward and optimizer step, as float16 needs."""

import ast

from autotune.source.insertions import (
    after,
    after_imports,
    before,
    import_line,
    imports_added,
    snippet,
)
from autotune.source.loops.loss import receiver_of
from autotune.source.places import Call, backward_and_step, optimizer_call, refusal
from autotune.source.program import Change, Program, Refusal, replacing
from autotune.source.reach import calls_in
from autotune.source.refusals.overflow import fatal_check, may_see_gradients
from autotune.source.refusals.own_process import must_come_before_cuda
from autotune.source.script import Function, Script, given_to, is_method, last_name, parameters

_SWITCH_ON = "GradScaler(enabled=True), as float16 needs"
_NOT_FATAL = "leave the step to scaler.step(optimizer), which leaves it out, and do not end here"
# What is handed gradients while backward makes them.
_HOOKS = frozenset(
    f"register_{kind}hook"
    for kind in ("", "backward_", "full_backward_", "full_backward_pre_", "post_accumulate_grad_")
)


def scaler_by_hand(program: Program, device_type: str) -> str:
    """What a person would write for `with_scaler`."""
    if any(_may_be_off(script.tree) for script in program.scripts.values()):
        return _SWITCH_ON
    return (
        f'scaler = torch.amp.GradScaler("{device_type}") before the loop; '
        "scaler.scale(loss).backward(); before gradients are clipped scaler.unscale_(optimizer); "
        "scaler.step(optimizer); scaler.update()"
    )


def with_scaler(program: Program, device_type: str, hand_step: str) -> Program:
    """`program` with a `torch.amp.GradScaler` between its backward and its optimizer's step.

    Raises:
        Refusal: it has a scaler that does other things, or its step is not beside backward.
    """
    backward, step = backward_and_step(program, hand_step)
    scripts = program.scripts.values()
    if is_scaled(backward) and step.node.args:
        if any(_may_be_off(script.tree) for script in scripts):
            raise backward.refusal("the program may switch its own GradScaler off", hand_step)
        return program
    if any("GradScaler" in ast.unparse(script.tree) for script in scripts):  # no comments
        raise backward.refusal("the source names a GradScaler elsewhere", hand_step)
    _check_step(program, backward, step, hand_step)
    name = backward.script.free_name("scaler", "grad_scaler")
    return program.changed(
        [
            *_defined(program, backward, name, device_type, hand_step),
            loss_as(backward, f"{name}.scale({backward.script.code(receiver_of(backward))})"),
            *_unscaled(backward, step, name, hand_step),
            *_scaled_step(step, name),
        ]
    )


def _check_step(program: Program, backward: Call, step: Call, hand_step: str) -> None:
    """Refuse where scaled gradients, or a step that is left out, would mean something else."""
    if step.node.args or step.node.keywords:
        codes = ", ".join(map(step.script.code, given_to(step.node)))
        raise step.refusal(f"the optimizer's step is given arguments ({codes})", hand_step)
    if _steps_elsewhere(program, step):
        raise step.refusal("an optimizer of that name steps in another place too", hand_step)
    if other := _other_optimizer(program, backward, step):
        raise step.refusal(f"{other} may step on the scaled gradients as well", hand_step)
    script = backward.script
    if step.script is not script or script.function(step.node) is not script.function(
        backward.node
    ):
        reason = "backward and the optimizer's step are in different functions"
        raise backward.refusal(reason, hand_step)
    if hook := _hook(program):
        reason = "a hook may be handed gradients in backward, where they are scaled"
        raise hook.refusal(reason, f"{hand_step}; divide by scaler.get_scale() in this hook")
    if fatal := fatal_check(program, backward, step):
        reason = "the program, or its loop, may end by what it sees of gradients, and scaled ones "
        reason += "overflow at times"
        raise refusal(script, fatal.lineno, reason, f"{hand_step}; {_NOT_FATAL}")


def _hook(program: Program) -> Call | None:
    """The first call that has gradients handed to something while backward makes them."""
    for script, call in program.calls():
        if last_name(call.func) in _HOOKS:
            return Call(script=script, node=call, what="hook")
    return None


def _steps_elsewhere(program: Program, step: Call) -> bool:
    """Whether the optimizer, by its name, steps elsewhere too, where gradients are scaled."""
    name = last_name(_stepping(step.node))
    return any(
        is_method(node, "step")
        and node is not step.node
        and last_name(_stepping(node)) == name
        and not _is_of_another(script, node, step)
        for script, node in program.calls()
    )


def _is_of_another(script: Script, node: ast.Call, step: Call) -> bool:
    """Whether `node` steps what its own function builds, or clears, and runs backward for."""
    function, stepping = script.function(node), _stepping(node)
    if function is None or step.node in ast.walk(function) or not isinstance(stepping, ast.Name):
        return False
    calls = list(calls_in(function))
    passes = [at.lineno for at in calls if is_method(at, "backward")]
    clears = [at.lineno for at in calls if is_method(at, "zero_grad")]
    if not passes:
        return False
    given = stepping.id in parameters(function)
    built = script.binds(stepping.id, beside=node)
    cleared = bool(clears) and min(clears) < min(passes)
    return (given and cleared) or any(isinstance(at, ast.Call) for at in built)


def _other_optimizer(program: Program, backward: Call, step: Call) -> str:
    """What else the function of `backward` steps that may be an optimizer, though unseen."""
    script, own = backward.script, last_name(_stepping(step.node))
    around = script.function(backward.node) or script.tree
    cleared = {last_name(_stepping(at)) for _, at in program.calls() if is_method(at, "zero_grad")}
    stepped = [_stepping(at) for at in calls_in(around) if is_method(at, "step") and not at.args]
    others = [at for at in stepped if last_name(at) != own]
    for name, at in ((last_name(at), at) for at in others):
        if name in cleared or ("opt" in name.lower() and "sched" not in name.lower()):
            return script.code(at)
    return ""


def _may_be_off(tree: ast.AST) -> bool:
    """Whether a GradScaler is told by an argument whether it scales at all."""
    return any(
        each.arg == "enabled" and not (isinstance(each.value, ast.Constant) and each.value.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_name(node.func) == "GradScaler"
        for each in node.keywords
    )


def is_scaled(backward: Call) -> bool:
    """Whether `backward` is `scaler.scale(loss).backward()`."""
    function = backward.node.func
    return isinstance(function, ast.Attribute) and is_method(function.value, "scale")


def _defined(
    program: Program, backward: Call, name: str, device_type: str, hand_step: str
) -> list[Change]:
    """The statement that makes the scaler, where the loop sees it and comes by but once.

    Raises:
        Refusal: that is while the program imports, which would wake CUDA up too early.
    """
    script = backward.script
    own = snippet(script, f'{name} = torch.amp.GradScaler("{device_type}")')
    at = _beside_loop(program, backward)
    until = (at or backward.statement).lineno
    imports = imports_added(script, own.imports, until=until)
    if at is None or not script.owns_its_lines(at):
        if must_come_before_cuda(program, script, import_line(script, until)):
            reason = "it may wake CUDA up before the program chooses its GPUs, or starts processes"
            raise backward.refusal(reason, hand_step)
        return [*imports, after_imports(script, own.lines, until=until)]
    return [*imports, after(script, at, own.lines)]


def _beside_loop(program: Program, backward: Call) -> ast.stmt | None:
    """What builds the optimizer, or holds what does, before the loop in one block with it."""
    place = program.places.optimizer
    if place is None or place.path != backward.script.path:
        return None
    script = backward.script
    try:
        optimizer = optimizer_call(program, "")
    except Refusal:
        return None
    loop = script.statements_to(backward.node)
    if script.function(optimizer.node) is script.function(backward.node):
        for holder in script.statements_to(optimizer.node):
            block = script.block(holder)
            if any(at in block and block.index(at) > block.index(holder) for at in loop):
                return holder
    return None


def loss_as(backward: Call, code: str) -> Change:
    """`code` for what `backward` is called on, with the brackets round that."""
    script, start = backward.script, backward.script.start(backward.node)
    dot = script.text.rindex(".", start, script.end(backward.node.func))
    return Change(path=script.path, start=start, end=dot, text=code)


def _unscaled(backward: Call, step: Call, name: str, hand_step: str) -> list[Change]:
    """What stands between backward and step has the gradients as they are, not as they are scaled.

    Raises:
        Refusal: it runs where it cannot be told whether backward has run for the last time.
    """
    script = backward.script
    before_step = _before_step(backward, step)
    inside = {node for at in before_step for node in ast.walk(at)}
    begins, ends = script.end(backward.node), script.start(step.node)
    for node in ast.walk(script.function(step.node) or script.tree):
        between = isinstance(node, ast.expr) and begins < script.start(node) < ends
        if between and node not in inside and may_see_gradients(node):
            reason = "gradients may be looked at between backward and the block of the step"
            raise step.refusal(reason, hand_step)
    for number, at in enumerate(before_step):
        if any(map(may_see_gradients, ast.walk(at))):
            if not script.owns_its_lines(at):
                raise step.refusal("a line before the step has more than one statement", hand_step)
            unscaled = before(script, at, [f"{name}.unscale_({_receiver(step)})"])
            return [unscaled, *_updated_without_step(step, before_step[number:], name, hand_step)]
    return []


def _updated_without_step(
    step: Call, before_step: list[ast.stmt], name: str, hand_step: str
) -> list[Change]:
    """Where a step is left out after gradients were unscaled, the scaler hears of it all the same:
    it unscales no others before, and an overflow makes its scale smaller.

    Raises:
        Refusal: there is no room for it.
    """
    script, changes = step.script, []
    for node in (node for at in before_step for node in ast.walk(at)):
        if isinstance(node, ast.Continue | ast.Break | ast.Return) and _leaves_out(step, node):
            if not script.owns_its_lines(node):
                reason = "a line that leaves the step out has more than one statement"
                raise step.refusal(reason, hand_step)
            changes.append(before(script, node, [f"{name}.update()"]))
    return changes


def _leaves_out(step: Call, node: ast.stmt) -> bool:
    """Whether `node`, on the way to the step, leaves the loop's turn or the function with it."""
    kinds = Function if isinstance(node, ast.Return) else Function | ast.For | ast.While
    left = next((at for at in step.script.ancestors(node) if isinstance(at, kinds)), None)
    return left is None or left in step.script.ancestors(step.node)


def _before_step(backward: Call, step: Call) -> list[ast.stmt]:
    """The statements that lead from what holds backward to the step, in the block of the step."""
    block = step.script.block(step.statement)
    holders = step.script.statements_to(backward.node)
    begins = next((number + 1 for number, at in enumerate(block) if at in holders), 0)
    return block[begins : block.index(step.statement)]


def _scaled_step(step: Call, name: str) -> list[Change]:
    script = step.script
    return [
        replacing(script, step.node, f"{name}.step({_receiver(step)})"),
        after(script, step.statement, [f"{name}.update()"]),
    ]


def _receiver(step: Call) -> str:
    return step.script.code(_stepping(step.node))


def _stepping(step: ast.Call) -> ast.expr:
    assert isinstance(step.func, ast.Attribute)
    return step.func.value
