"""How the optimizers are built: one argument of each, which an older checkpoint does not have."""

import ast
from collections.abc import Sequence

from autotune.source.calls.keywords import (
    Signature,
    drop_argument,
    given_value,
    operand,
    set_argument,
)
from autotune.source.edits import OptimizerArgument
from autotune.source.insertions import before
from autotune.source.places import OPTIMIZERS, Call, optimizer_call
from autotune.source.program import Change, Forbidden, Program, Refusal, replacing
from autotune.source.reach import calls_in
from autotune.source.refusals.loads import loads_of
from autotune.source.refusals.own_gradients import gradients_read, turned_gradients
from autotune.source.refusals.own_state import counted_anew, extended, forgotten, joined, relaid
from autotune.source.script import Function, last_name, root_name

_OPTIMIZER = Signature(defaults={"fused": "None", "foreach": "None"})
_FUSED = "update(fused=True, foreach=False)"  # of a group of parameters
_WITH_MOMENTUM = frozenset(("SGD", ""))  # or what has no name
_WRITING_GRADIENTS = frozenset(("Rprop", "Adagrad", "Adamax"))
_BY_HAND = "{}={} among the arguments of the optimizer"


def optimizer_argument(program: Program, edit: OptimizerArgument) -> Program:
    """`program` with its optimizers built with `edit.name=edit.code`.

    Raises:
        Refusal: what one of them is built with now cannot be told, or which class it is; or a fused
            one would be another training.
    """
    is_fused = (edit.name, edit.code) == ("fused", "True")
    if is_fused and (place := turned_gradients(program)):
        raise Forbidden(
            f"a gradient of the program's own is set at {place}, which may lie in memory otherwise "
            "than its weight: a fused optimizer would then mix up which is whose"
        )
    built = _built(program, edit)
    if built is program:
        return built
    calls = [optimizer_call(program, "", index) for index in range(_count(program))]
    if edit.code == "True":
        _refuse_own_state(program, calls, is_fused=is_fused)
    if edit.code == "True" and not is_fused:
        _refuse_read_gradients(program, calls)
    if not is_fused:
        return built
    names = (node.attr for _, node in program.nodes() if isinstance(node, ast.Attribute))
    if "channels_last" in names:  # a checkpoint of before has its averages in the usual order
        return built
    told = (change for load in loads_of(program, calls) for change in _told(program, load))
    return _built(program.changed(told), edit)


def _refuse_own_state(program: Program, calls: Sequence[Call], *, is_fused: bool) -> None:
    """Refuse other implementations where the program changes what its optimizers have or keep in a
    way that fails there, whenever it comes to that.

    Raises:
        Forbidden: it does.
    """
    if place := counted_anew(program, calls):
        raise Forbidden(
            f"the count of a weight's steps is set at {place}: torch's implementations for many "
            "weights at once may fail where that is no float32"
        )
    if is_fused and (place := joined(program, calls)):
        raise Forbidden(
            f"weights join the optimizer at {place}, and the source names complex numbers, what "
            "makes them, or sparse gradients: a fused one takes no weights that have such"
        )
    if is_fused and (place := relaid(program)):
        raise Forbidden(
            f"the training gives weights other memory at {place}, in which their numbers may lie "
            "in another order than what the optimizer keeps of them: a fused one reads both as "
            "they lie"
        )
    by_sgd = any(last_name(call.node.func) in _WITH_MOMENTUM for call in calls)
    if not (is_fused and by_sgd):
        return
    fails = (
        "torch's fused SGD fails in a step in which some weights have a momentum and others none"
    )
    if place := forgotten(program, calls):
        raise Forbidden(
            f"what the optimizer keeps of a weight is dropped or replaced at {place}: {fails}"
        )
    if place := extended(program, calls):
        raise Forbidden(f"weights are put into a group that is there already at {place}: {fails}")


def _refuse_read_gradients(program: Program, calls: Sequence[Call]) -> None:
    """Refuse an implementation that leaves something else in gradients which the program reads: it
    may do so when it has stepped.

    Raises:
        Forbidden: it does.
    """
    writing = next(filter(_writes_gradients, calls), None)
    if writing is not None and (place := gradients_read(program)):
        raise Forbidden(
            f"the program reads gradients at {place}: torch's implementation of "
            f"{last_name(writing.node.func) or 'SGD'} for many weights at once (foreach) may write "
            "into them"
        )


def _writes_gradients(call: Call) -> bool:
    """Whether torch's `foreach` form of what `call` builds may change gradients in place (2.13)."""
    name = last_name(call.node.func)
    nesterov = next((each.value for each in call.node.keywords if each.arg == "nesterov"), None)
    asked = nesterov is not None and not (isinstance(nesterov, ast.Constant) and not nesterov.value)
    return name in _WRITING_GRADIENTS or (name in _WITH_MOMENTUM and asked)


def _built(program: Program, edit: OptimizerArgument) -> Program:
    for index in range(_count(program)):
        program = _one_optimizer_argument(program, edit, index)
    return program


def _count(program: Program) -> int:
    return 1 + len(program.places.more_optimizers)


def _one_optimizer_argument(program: Program, edit: OptimizerArgument, index: int) -> Program:
    hand_step = f"{_BY_HAND.format(edit.name, edit.code)}{_likewise(program, index)}"
    call = optimizer_call(program, hand_step, index)
    if not _is_of_one_class(call):
        reason = f"which class {call.script.code(call.node.func)} is, its call does not tell"
        raise call.refusal(reason, f"{hand_step}, if its class takes that")
    if (named := _own_class(program, call)) and not _hands_on(named, edit.name):
        reason = f"{named.name}, a class of the program's own, is not built with {edit.name}"
        raise call.refusal(reason, f"{edit.name}={edit.code} where {named.name} builds its own")
    program = program.changed(set_argument(call, edit.name, edit.code, _OPTIMIZER, hand_step))
    rival = {"fused": "foreach", "foreach": "fused"}.get(edit.name)  # torch refuses both at once
    if rival is not None and edit.code == "True":
        call = optimizer_call(program, hand_step, index)
        given = given_value(call, rival, _OPTIMIZER)
        if not (isinstance(given, ast.Constant) and not given.value):
            program = program.changed(drop_argument(call, rival, _OPTIMIZER, hand_step))
    return program


def _likewise(program: Program, index: int) -> str:
    """What a person would do besides: the program has other optimizers of the class."""
    places = [program.places.optimizer, *program.places.more_optimizers]
    del places[index]
    others = ", ".join(f"{place.path}:{place.line}" for place in places if place)
    return f", and of that at {others}" if others else ""


def _is_of_one_class(call: Call) -> bool:
    """Whether the class that `call` builds is named there: not `getattr(optim, name)(...)`."""
    script, root = call.script, root_name(call.node.func)
    classes = {at.name for at in script.nodes if isinstance(at, ast.ClassDef)}
    named = root != "" and last_name(call.node.func) in OPTIMIZERS
    return named or root in script.imports or root in classes


def _own_class(program: Program, call: Call) -> ast.ClassDef | None:
    """The program's class that `call` builds; None where it is another's."""
    if call.script.qualified(call.node.func).startswith("torch."):
        return None
    name = last_name(call.node.func)
    classes = (at for _, at in program.classes() if at.name == name)
    return next(classes, None)


def _hands_on(named: ast.ClassDef, argument: str) -> bool:
    """Whether an object of that class can be built with `argument`, as far as its text shows."""
    built = (at for at in named.body if isinstance(at, Function) and at.name == "__init__")
    if (init := next(built, None)) is None:
        return True
    given = init.args
    takes = {each.arg for each in (*given.args, *given.kwonlyargs)}
    return given.kwarg is not None or argument in takes


def _told(program: Program, load: Call) -> list[Change]:
    """What tells the groups of a checkpoint that they are fused, before `load` takes them over: its
    counts of steps go to the GPU then.

    Raises:
        Refusal: there is no room for it.
    """
    script, state, statement = load.script, load.node.args[0], load.statement
    named = isinstance(state, ast.Name | ast.Attribute | ast.Subscript) and not any(calls_in(state))
    name = script.code(state) if named else script.free_name("state", "optimizer_state")
    given = [] if named else [f"{name} = {operand(script, state)}"]
    group = script.free_name("group", "param_group")
    lines = [*given, f'for {group} in {name}["param_groups"]:', f"    {group}.{_FUSED}"]
    simple = isinstance(statement, ast.Expr | ast.Assign) and statement.value is load.node
    if not (simple and script.owns_its_lines(statement)):
        raise _no_room(program, load, [*lines, *([] if named else [f"load_state_dict({name})"])])
    handed = [] if named else [replacing(script, state, name)]
    return [before(script, statement, lines), *handed]


def _no_room(program: Program, load: Call, lines: list[str]) -> Refusal:
    """The refusal to write `lines` before `load`, which has both halves of the hand step."""
    built = optimizer_call(program, "")
    code = "\n".join(lines)
    return built.refusal(
        "a checkpoint of before says that its optimizer is not fused",
        f"{_BY_HAND.format('fused', True)}\nbefore {load.script.path}:{load.node.lineno}: {code}",
    )
