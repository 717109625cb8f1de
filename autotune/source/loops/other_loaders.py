"""Other loaders than the one whose batches are divided: built by its line, or trained on too."""

import ast
import itertools

from autotune.source.loops.iteration import WRAPPERS
from autotune.source.loops.loop import TrainingLoop
from autotune.source.named import calls_named
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import argument, argument_code, is_bound, told
from autotune.source.script import (
    COMPREHENSIONS,
    Function,
    Script,
    given_to,
    last_name,
    parameters,
    root_name,
    stored_names,
)


def builds_several(program: Program, call: Call) -> bool:
    """Whether `call` seems to build several loaders: in a comprehension, or by several calls."""
    script = call.script
    inside = itertools.takewhile(lambda at: at is not call.statement, script.ancestors(call.node))
    if any(isinstance(at, COMPREHENSIONS) for at in inside):
        return True
    function = script.function(call.node)
    return function is not None and _times_called(program, call, function) > 1


def _times_called(program: Program, builds: Call, function: Function) -> int:
    """How often the program calls `function` and may come to `builds` in it."""
    return sum(
        _is_own(script, each.func) and _comes_to(builds, function, each)
        for script, each in calls_named(program, function.name)
    )


def _comes_to(builds: Call, function: Function, called: ast.Call) -> bool:
    """Whether `called` may come to `builds`: not by another constant for `if split == "train":`."""
    script, bound = builds.script, is_bound(builds.script, function)
    kept = set(parameters(function)) - stored_names(function)
    for above in script.statements_to(builds.node):
        holder = next(script.ancestors(above))
        match holder:
            case ast.If(
                test=ast.Compare(
                    left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=wanted)]
                )
            ) if name in kept:
                given = argument(called, function, name, bound=bound)
                inside = above in holder.body
                if isinstance(given, ast.Constant) and (given.value == wanted) != inside:
                    return False
    return True


def _is_own(script: Script, called: ast.expr) -> bool:
    """Whether `called` is a name, or an attribute of a module or of `self`."""
    if isinstance(called, ast.Attribute):
        own = isinstance(called.value, ast.Name) and called.value.id in ("self", "cls")
        return own or root_name(called) in script.imports
    return True


def other_loaders(program: Program, loop: TrainingLoop, call: Call) -> str:
    """How the loop may come to go over another loader, with whole batches; "" if unseen."""
    name, function = last_name(loop.loader), loop.script.function(loop.node)
    within = loop.script.binds(name, beside=loop.node)
    if any(isinstance(at, ast.Call) and last_name(at.func) in WRAPPERS for at in within):
        return f"the loop goes over {name}, which is given a wrapped loader (a progress bar, say)"
    beside = (call.script.binds(own, beside=call.node) for own in names_of(call))
    if any(len(each) > 1 for each in (within, *beside)):
        return "several values go by the name of the loader that the loop goes over"
    if function is None or name not in parameters(function):
        return ""
    calls = calls_named(program, function.name)
    given = {argument_code(call, loop.script, function, name) for _, call in calls}
    return f"{function.name} is given several loaders, perhaps" if len(given - {""}) > 1 else ""


def wrapper_of(program: Program, loop: TrainingLoop, call: Call) -> ast.Call | None:
    """The call that is given the DataLoader and makes what the loop goes over, None without one."""
    names, name = names_of(call), last_name(loop.loader)
    own = (at for each in names for at in call.script.binds(each, beside=call.node))
    values = [*loop.script.binds(name), *own]
    if function := loop.script.function(loop.node):
        handed = (value for _, value in told(program, loop.script, function, name))
        values += (value for value in handed if _called(value) not in WRAPPERS)
    for value in (at for each in values for at in _branches(each)):
        if isinstance(value, ast.Call):
            given = given_to(value)
            if any(at is call.node or last_name(at) in names for at in given):
                return value
    return None


def _branches(value: ast.expr) -> list[ast.expr]:
    """`Wrapped(loader)` and `loader` of `Wrapped(loader) if cuda else loader`; no progress bar."""
    if not isinstance(value, ast.IfExp):
        return [value]
    return [at for at in (value.body, value.orelse) if _called(at) not in WRAPPERS]


def _called(value: ast.expr) -> str:
    return last_name(value.func) if isinstance(value, ast.Call) else ""


def names_of(call: Call) -> set[str]:
    """The variables that the value of `call` is given to."""
    match call.statement:
        case ast.Assign(targets=targets, value=value) if value is call.node:
            return {last_name(target) for target in targets} - {""}
    return set()
