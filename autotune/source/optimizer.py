"""How the optimizers are built: one argument of each, which an older checkpoint does not have."""

import ast

from autotune.source.edits import OptimizerArgument
from autotune.source.insertions import before
from autotune.source.keywords import (
    Signature,
    drop_argument,
    given_value,
    operand,
    set_argument,
)
from autotune.source.loss import receiver_of
from autotune.source.places import OPTIMIZERS, Call, optimizer_call, step_call
from autotune.source.program import Change, Program, Refusal
from autotune.source.reach import calls_in
from autotune.source.script import Function, is_method, last_name

_OPTIMIZER = Signature(defaults={"fused": "None", "foreach": "None"})
_FUSED = "update(fused=True, foreach=False)"  # of a group of parameters
_BY_HAND = "{}={} among the arguments of the optimizer"


def optimizer_argument(program: Program, edit: OptimizerArgument) -> Program:
    """`program` with its optimizers built with `edit.name=edit.code`.

    Raises:
        Refusal: what one of them is built with now cannot be told, or which class it is.
    """
    built = _built(program, edit)
    if built is program or (edit.name, edit.code) != ("fused", "True"):
        return built
    told = (change for call in _loads(program) for change in _told(program, call))
    return _built(program.changed(told), edit)


def _built(program: Program, edit: OptimizerArgument) -> Program:
    for index in range(_count(program)):
        program = _one_optimizer_argument(program, edit, index)
    return program


def _count(program: Program) -> int:
    return 1 + len(program.places.more_optimizers)


def _one_optimizer_argument(program: Program, edit: OptimizerArgument, index: int) -> Program:
    hand_step = _BY_HAND.format(edit.name, edit.code)
    call = optimizer_call(program, hand_step, index)
    if not _is_of_one_class(call):
        reason = f"which class {call.script.code(call.node.func)} is, is only known when it runs"
        raise call.refusal(reason, f"{hand_step}, if its class takes that")
    program = program.changed(set_argument(call, edit.name, edit.code, _OPTIMIZER, hand_step))
    rival = {"fused": "foreach", "foreach": "fused"}.get(edit.name)  # torch refuses both at once
    if rival is not None and edit.code == "True":
        call = optimizer_call(program, hand_step, index)
        given = given_value(call, rival, _OPTIMIZER)
        if not (isinstance(given, ast.Constant) and not given.value):
            program = program.changed(drop_argument(call, rival, _OPTIMIZER, hand_step))
    return program


def _is_of_one_class(call: Call) -> bool:
    """Whether the class that `call` builds is named there: not `getattr(optim, name)(...)`."""
    script, root = call.script, call.node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    classes = {at.name for at in ast.walk(script.tree) if isinstance(at, ast.ClassDef)}
    named = last_name(call.node.func) in OPTIMIZERS
    return named or root.id in script.imports or root.id in classes


def _loads(program: Program) -> list[Call]:
    """The calls that give an optimizer a checkpoint's state, by the names that it goes by."""
    names = _names(program)
    own = _with_own_loading(program)
    calls = [
        Call(script=script, node=call, what="load_state_dict")
        for script in program.scripts.values()
        for call in calls_in(script.tree)
        if is_method(call, "load_state_dict") and call.args
    ]
    return [
        call
        for call in calls
        if last_name(receiver_of(call)) in names and not _is_of(call, receiver_of(call), own)
    ]


def _with_own_loading(program: Program) -> set[str]:
    """The names of the program's classes that take a checkpoint's state in a way of their own."""
    return {
        kind.name
        for script in program.scripts.values()
        for kind in ast.walk(script.tree)
        if isinstance(kind, ast.ClassDef)
        and any(isinstance(at, Function) and at.name == "load_state_dict" for at in kind.body)
    }


def _is_of(load: Call, receiver: ast.expr, classes: set[str]) -> bool:
    """Whether `receiver` is given an object of one of these `classes` in its file."""
    return any(
        isinstance(at, ast.Assign)
        and isinstance(at.value, ast.Call)
        and last_name(at.value.func) in classes
        and ast.unparse(receiver) in map(ast.unparse, at.targets)
        for at in ast.walk(load.script.tree)
    )


def _names(program: Program) -> set[str]:
    """What the optimizers are called where they are built, and where one steps."""
    names: set[str] = set()
    for index in range(_count(program)):
        call = optimizer_call(program, "", index)
        statement = call.statement
        if isinstance(statement, ast.Assign) and statement.value is call.node:
            names |= set(map(last_name, statement.targets))
    try:
        step = step_call(program, "")
    except Refusal:
        return names - {""}
    return {*names, last_name((step.node.args or [receiver_of(step)])[0])} - {""}


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
    start, end = script.start(state), script.end(state)
    handed = Change(path=script.path, start=start, end=end, text=name)
    return [before(script, statement, lines), *([] if named else [handed])]


def _no_room(program: Program, load: Call, lines: list[str]) -> Refusal:
    """The refusal to write `lines` before `load`, which has both halves of the hand step."""
    built = optimizer_call(program, "")
    code = "\n".join(lines)
    return built.refusal(
        "a checkpoint of before says that its optimizer is not fused",
        f"{_BY_HAND.format('fused', True)}\nbefore {load.script.path}:{load.node.lineno}: {code}",
    )
