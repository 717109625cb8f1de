"""Where workers would run the whole program, or those that live on stay where they were begun."""

import ast
import multiprocessing
from collections.abc import Iterator

from autotune.source.calls.building import Building
from autotune.source.calls.keywords import given_value
from autotune.source.calls.spreads import may_hide
from autotune.source.loops.around_training import loops_of_training, running, running_within
from autotune.source.named import calls_named
from autotune.source.program import Program, first_of
from autotune.source.script import covers, is_guard, last_name

_SETS, _GETS = "set_start_method", "get_context"  # for all processes, for those begun by it
_FORK = "fork"
_CONTEXT = "multiprocessing_context"
_CHANGES = "chdir"  # os.chdir, contextlib.chdir


def run_anew(program: Program, at: Building) -> bool:
    """Whether the workers built `at` are not forked, and the main script trains on import."""
    return _start_method(program, at) != _FORK and _trains_on_import(program)


def _start_method(program: Program, at: Building) -> str:
    """How its workers are started, as far as constants tell: the platform's way if they do not."""
    own = given_value(at.call, _CONTEXT, at.signature)
    hidden = own is None and may_hide(at.call, _CONTEXT)
    given = [own] if own is not None else list(_given_in_class(program))
    given += _set_later(program)
    constants = [each.value for each in given if isinstance(each, ast.Constant)]
    made = [each for each in given if not isinstance(each, ast.Constant)]
    says = {_SETS, _GETS} if made or hidden else {_SETS}
    nodes = [node for each in made for node in ast.walk(each)]
    nodes += (node for _, node in program.nodes())
    for node in nodes:
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=str(method)), *_]):
                constants += [method] if last_name(function) in says else []
    usual = multiprocessing.get_all_start_methods()[0]
    return next((each for each in constants if isinstance(each, str)), usual)


def _given_in_class(program: Program) -> Iterator[ast.expr]:
    """What an own loader class gives DataLoader as it (`super().__init__(...)`)."""
    if program.places.loader_class is not None:
        for _, call in calls_named(program, "__init__"):
            yield from (each.value for each in call.keywords if each.arg == _CONTEXT)


def _set_later(program: Program) -> Iterator[ast.expr]:
    """What a loader is given as it when it is there (`loader.multiprocessing_context = ...`)."""
    for _, node in program.nodes():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                yield from [value] if name == _CONTEXT else []


def _trains_on_import(program: Program) -> bool:
    """Whether importing the main script comes to the backward pass that was seen."""
    place = program.places.backward
    main, seen = program.scripts.get(program.main), program.scripts.get(place.path if place else "")
    if main is None or seen is None or place is None:
        return False
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    imported: list[ast.AST] = [
        at for at in main.tree.body if not isinstance(at, definitions) and not is_guard(at)
    ]
    passes = (at for at in seen.nodes if isinstance(at, ast.stmt))
    innermost = [at for at in passes if covers(at, place.line)][-1:]
    return not running(program, imported).isdisjoint(innermost)


def changed_directory(program: Program) -> str:
    """Where the training's loops change the working directory: workers that live on stay behind."""
    calls = [
        (script, call)
        for script in program.scripts.values()
        for call in (script.calls if _CHANGES in script.text else ())
        if last_name(call.func) == _CHANGES
    ]
    if not calls:
        return ""
    inner, outer = loops_of_training(program)
    loops: list[ast.AST] = [at for at in (*inner, *outer) if isinstance(at, ast.For | ast.While)]
    ran = running_within(program, loops)
    return first_of(each for each in calls if each[1] in ran)
