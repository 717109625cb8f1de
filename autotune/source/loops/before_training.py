"""What runs until the program trains: the functions that lead to its loop, and those before it."""

import ast
import sys

from autotune.source.edits import Place
from autotune.source.named import calls_named
from autotune.source.program import Program
from autotune.source.reach import callers, calls_in
from autotune.source.script import Function, Script, covers, last_name, names_in


def first_line_of_training(program: Program, script: Script) -> int:
    """The first line of `script` at which a run was seen to build, copy or compute something, or at
    whose top it calls what comes to train.
    """
    places = program.places
    single = (places.loader, places.optimizer, places.forward, places.backward, places.step)
    seen = [at for at in (*single, *places.outputs, *places.copies) if isinstance(at, Place)]
    lines = [at.line for at in seen if at.path == script.path]
    leading = _leading(program)
    at_top = _calls_by_function(script).get(None, [])
    lines += [call.lineno for call in at_top if last_name(call.func) in leading]
    return min(lines, default=sys.maxsize)


def training_functions(program: Program) -> set[Function]:
    """The functions that run before the program trains, or lead to it; no loader worker's."""
    functions = [at for _, at in program.functions()]
    place = program.places.backward
    known = {at.name for at in functions}
    if place is not None and place.path in program.scripts:
        known = _until(program, functions, place)
    workers = _of_workers(program)
    return {at for at in functions if at.name in known - workers}


def last_line_before_training(program: Program, script: Script, scope: Function | None) -> int:
    """The last line of `scope`, a function or (None) the top of `script`, after which nothing in it
    leads to training any more: never (`sys.maxsize`) where it may run several times.
    """
    place = program.places.backward
    if place is None or place.path not in program.scripts:
        return sys.maxsize
    leading = _leading(program)
    if script is program.scripts[place.path] and scope is _round(program, place):
        leading.add("backward")
    calls = _calls_by_function(script).get(scope, [])
    found = [call for call in calls if last_name(call.func) in leading]
    again = scope is not None and any(
        _loops(each, call) for each, call in calls_named(program, scope.name)
    )
    if again or not found:
        return sys.maxsize
    last = [list[ast.expr | ast.stmt]([call, *_loops(script, call)])[-1] for call in found]
    return max(at.end_lineno or at.lineno for at in last)


def _loops(script: Script, node: ast.AST) -> list[ast.For | ast.While]:
    """The loops round `node` in its function."""
    return [at for at in script.statements_to(node) if isinstance(at, ast.For | ast.While)]


def _until(program: Program, functions: list[Function], place: Place) -> set[str]:
    """The names of the functions that lead to the one round `place`, and of those called before."""
    loop, inner = program.scripts[place.path], _round(program, place)
    leading = _leading(program)
    found, calls = {*leading, "__init__"}, list[ast.Call]()
    for script in program.scripts.values():
        for scope, made in _calls_by_function(script).items():
            if scope is None or scope.name in (*leading, "__init__"):
                ends = [call.lineno for call in made if last_name(call.func) in leading]
                if script is loop and scope is inner:
                    ends.append(place.line)
                calls += [call for call in made if call.lineno < min(ends, default=sys.maxsize)]
    while more := {last_name(call.func) for call in calls} - found:
        found |= more
        calls = [call for at in functions if at.name in more for call in calls_in(at)]
    return found


def _leading(program: Program) -> set[str]:
    """The names of the functions that come to call the one round its backward pass."""
    place = program.places.backward
    inner = _round(program, place) if place is not None else None
    return callers(program, inner.name) if inner else set()


def _round(program: Program, place: Place) -> Function | None:
    """The innermost function round `place`."""
    script = program.scripts.get(place.path)
    functions = [at for at in script.nodes if isinstance(at, Function)] if script else []
    around = [at for at in functions if covers(at, place.line)]
    return around[-1] if around else None


def _calls_by_function(script: Script) -> dict[Function | None, list[ast.Call]]:
    """The calls of each function of `script`; of None those at its top."""
    found: dict[Function | None, list[ast.Call]] = {}
    for call in script.calls:
        found.setdefault(script.function(call), []).append(call)
    return found


def _of_workers(program: Program) -> set[str]:
    """The names of what loaders are given to run in their workers."""
    given = (
        each.value
        for _, call in program.calls()
        for each in call.keywords
        if each.arg == "worker_init_fn"
    )
    return set[str]().union(*map(names_in, given))
