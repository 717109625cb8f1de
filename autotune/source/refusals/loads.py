"""Where an optimizer is given a checkpoint's state, and which optimizer that can be."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.source.calls.writes import stored_in
from autotune.source.loops.kinds import classes_of, kin
from autotune.source.loops.loss import receiver_of
from autotune.source.places import OPTIMIZERS, Call, step_call
from autotune.source.program import Program, Refusal
from autotune.source.reach import calls_in, reached, told
from autotune.source.script import Function, Script, is_method, is_none, last_name, parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A name or attribute that is given a value in its file, None where that cannot be seen."""

    script: Script
    place: ast.expr
    value: ast.expr | None


def loads_of(program: Program, built: Sequence[Call]) -> list[Call]:
    """The calls that load a state into what may be one of the optimizers `built` so, by names."""
    names = names_of(program, built)
    own = _with_own_loading(program)
    calls = [
        Call(script=script, node=call, what="load_state_dict")
        for script, call in program.calls()
        if is_method(call, "load_state_dict") and call.args
    ]
    return [
        call
        for call in calls
        if last_name(receiver_of(call)) in names
        and not _is_of(program, call, own)
        and not _is_another(program, call, built)
    ]


def names_of(program: Program, built: Sequence[Call]) -> set[str]:
    """What optimizers `built` so are called where they are built, and where one steps."""
    names: set[str] = set()
    for call in built:
        statement = call.statement
        if isinstance(statement, ast.Assign) and statement.value is call.node:
            names |= set(map(last_name, statement.targets))
    try:
        step = step_call(program, "")
    except Refusal:
        return names - {""}
    return {*names, last_name((step.node.args or [receiver_of(step)])[0])} - {""}


def _with_own_loading(program: Program) -> set[str]:
    """The own classes that load a state in their own way, and functions that return such."""
    kinds = {
        kind.name
        for _, kind in program.classes()
        if any(isinstance(at, Function) and at.name == "load_state_dict" for at in kind.body)
    }
    return kinds | {
        function.name
        for _, function in program.functions()
        for at in ast.walk(function)
        if isinstance(at, ast.Return) and _calls(at.value, kinds)
    }


def _calls(value: ast.expr | None, names: set[str]) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in names


def _is_of(program: Program, load: Call, classes: set[str]) -> bool:
    """Whether the receiver of `load` is an object of `classes`, in its file or as handed over."""
    handed = (
        each
        for given in _givings(program, load)
        if isinstance(given.value, ast.Name)
        if (function := given.script.function(given.place)) is not None
        for each in told(program, given.script, function, given.value.id)
    )
    return _is_made(load.script, receiver_of(load), classes) or any(
        _calls(value, classes) or _is_made(script, value, classes) for script, value in handed
    )


def _is_made(script: Script, place: ast.expr, classes: set[str]) -> bool:
    """Whether `place` is given an object of one of these `classes` in `script`."""
    return any(
        isinstance(at, ast.Assign)
        and _calls(at.value, classes)
        and ast.unparse(place) in map(ast.unparse, at.targets)
        for at in script.nodes
    )


def _is_another(program: Program, load: Call, built: Sequence[Call]) -> bool:
    """Whether all that the receiver of `load` is given builds an optimizer that is not `built`."""
    given = [at for at in _givings(program, load) if not is_none(at.value)]
    return bool(given) and all(_builds_another(program, at, built) for at in given)


def _builds_another(program: Program, given: _Given, built: Sequence[Call]) -> bool:
    """Whether what is `given` comes from building an optimizer, and none of `built`."""
    if not isinstance(given.value, ast.Call | ast.IfExp | ast.Tuple):
        return False
    calls = [call for at in reached(program, [given.value]) for call in calls_in(at)]
    builds = any(
        last_name(call.func) in OPTIMIZERS or any(is_method(at, "parameters") for at in call.args)
        for call in calls
    )
    return builds and {call.node for call in built}.isdisjoint(calls)


def _givings(program: Program, load: Call) -> list[_Given]:
    """What the receiver of `load` may be given, wherever; of `self` not by other classes."""
    receiver, script = receiver_of(load), load.script
    if isinstance(receiver, ast.Name):
        return _of_variable(script, receiver)
    holder = script.class_round(load.node)
    own = kin(classes_of(program), holder) if holder and _is_of_self(receiver) else set()
    given = (at for each in program.scripts.values() for at in _given_in(each, each.tree))
    return [
        at
        for at in given
        if isinstance(at.place, ast.Attribute) and at.place.attr == last_name(receiver)
        if not (own and _is_of_self(at.place) and own.isdisjoint(at.script.ancestors(at.place)))
    ]


def _of_variable(script: Script, receiver: ast.Name) -> list[_Given]:
    """What the variable `receiver` is given in its function, or else in the file."""
    function = script.function(receiver)
    if function is not None and receiver.id in parameters(function):
        return [_Given(script=script, place=receiver, value=receiver)]
    for around in (function, script.tree):
        given = _given_in(script, around) if around is not None else []
        if found := [at for at in given if ast.unparse(at.place) == receiver.id]:
            return found
    return []


def _given_in(script: Script, around: ast.AST) -> list[_Given]:
    """The variables and attributes that are given a value in `around`."""
    found = []
    for at in stored_in(ast.walk(around)):
        holder = script.statement(at)
        value = holder.value if isinstance(holder, ast.Assign | ast.AnnAssign) else None
        found.append(_Given(script=script, place=at, value=value))
    return found


def _is_of_self(place: ast.expr) -> bool:
    """Whether `place` is `self.name`."""
    return isinstance(place, ast.Attribute) and last_name(place.value) == "self"


def mixed_up(program: Program, built: Sequence[Call]) -> str:
    """Why weights of optimizers `built` so cannot be channels last where `program` asks for a fused
    one; "" if they can.
    """
    fused = any(
        isinstance(node, ast.keyword)
        and node.arg == "fused"
        and not (isinstance(node.value, ast.Constant) and not node.value.value)
        for _, node in program.nodes()
    )
    for load in loads_of(program, built) if fused else ():
        return (
            f"an optimizer is given a state ({ast.unparse(load.node.func)}), whose averages may "
            "lie in the usual order: a fused one goes through them and through weights that are "
            "channels last as they lie in memory, and would mix up which is whose"
        )
    return ""
