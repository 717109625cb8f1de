"""Whether a loop that trains draws from its loader a second time while it goes through it."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from autotune.source.calls.writes import given_values
from autotune.source.loops.indirect import Called, called_in
from autotune.source.loops.iteration import WRAPPERS, loop_that_trains
from autotune.source.program import Program
from autotune.source.reach import argument_code, called_as, calls_in, functions_named
from autotune.source.script import Function, Script, given_to, last_name, parameters

_DRAWING = frozenset(("iter", "list", "tuple", "enumerate", "zip", "cycle", *WRAPPERS))


def draws_again(program: Program) -> bool:
    """Whether the loop that trains goes over its loader twice, or calls what draws from it."""
    found = loop_that_trains(program)
    if found is None:
        return False
    script, loop = found
    own = list(map(ast.unparse, _gone_over(loop.iter)))
    inside = (node for at in loop.body for node in ast.walk(at))
    named = {
        ast.unparse(at)
        for at in inside
        if isinstance(at, ast.Name | ast.Attribute)
        if not (_only_asked(script, at) or _is_given_to_ask(program, script, at))
    }
    if len(set(own)) < len(own) or named & set(own):
        return True
    called = called_in(program, script, loop, loop.body)
    running = [*loop.body, *(each.node for each in called)]
    calls = [at for each in running for at in calls_in(each)]
    return any(_draws(program, loop, calls, function, set(own)) for function in called)


def _gone_over(source: ast.expr) -> list[ast.expr]:
    """What `source`, of a loop, draws from: inside enumerate(), zip() and progress bars."""
    match source:
        case ast.Call(func=function, args=[first, *others]):
            name = last_name(function)
            inside = [first, *others] if name == "zip" else [first] if name in WRAPPERS else []
            return [each for at in inside for each in _gone_over(at)]
        case ast.Name() | ast.Attribute():
            return [source]
    return []


def _only_asked(script: Script, loader: ast.expr) -> bool:
    """Whether `loader` is only asked for its length or an attribute."""
    above = next(script.ancestors(loader))
    return isinstance(above, ast.Attribute) or (
        isinstance(above, ast.Call) and last_name(above.func) == "len"
    )


def _is_given_to_ask(program: Program, script: Script, loader: ast.expr) -> bool:
    """Whether the functions that are given `loader` only ask for its length or an attribute."""
    above = next(script.ancestors(loader))
    call = next(script.ancestors(above)) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call) or call.func is loader:
        return False
    code, asked = ast.unparse(loader), list[bool]()
    for other, function in functions_named(program, last_name(call.func)):
        names = parameters(function)
        same = {name for name in names if argument_code(call, other, function, name) == code}
        uses = (at for at in ast.walk(function) if isinstance(at, ast.Name) and at.id in same)
        asked.append(bool(same) and all(_only_asked(other, at) for at in uses))
    return bool(asked) and all(asked)


def _draws(
    program: Program, loop: ast.For, calls: Sequence[ast.Call], function: Called, own: set[str]
) -> bool:
    """Whether `function` draws from what `loop` goes over, given to it or kept by its object."""
    holder = next(function.script.ancestors(function.node))
    for source in _drawn_from(function.node):
        match source:
            case ast.Name(id=name) if name in parameters(function.node):
                given = _given(calls, function, function.node.name, name)
            case ast.Attribute(attr=name, value=ast.Name(id="self")) if isinstance(
                holder, ast.ClassDef
            ):
                around = loop in ast.walk(holder)
                given = {f"self.{name}"} if around else _kept(program, function, holder, name)
            case _:
                continue
        if given & own:
            return True
    return False


def _drawn_from(function: Function) -> Iterator[ast.expr]:
    """What `function` goes over, or begins to."""
    for node in ast.walk(function):
        match node:
            case ast.For(iter=source) | ast.comprehension(iter=source):
                yield from _gone_over(source)
            case ast.Call(func=called, args=[*given]) if last_name(called) in _DRAWING:
                yield from (at for at in given if isinstance(at, ast.Name | ast.Attribute))


def _given(calls: Iterable[ast.Call], function: Called, name: str, parameter: str) -> set[str]:
    """What those of `calls` that are of `name` give for this `parameter` of `function`."""
    return {
        argument_code(call, function.script, function.node, parameter)
        for call in calls
        if last_name(call.func) == name
    }


def _kept(program: Program, function: Called, holder: ast.ClassDef, name: str) -> set[str]:
    """What objects of `holder` are given that they keep as `self.name`."""
    calls = [call for _, call in program.calls()]
    found = set[str]()
    if not any(isinstance(at, Function) and at.name == "__init__" for at in holder.body):
        made = (each for each in calls if last_name(each.func) == holder.name)  # a dataclass, say
        found |= {ast.unparse(at) for each in made for at in given_to(each)}
    for method in (at for at in holder.body if isinstance(at, Function)):
        by = Called(script=function.script, node=method)
        named = called_as(function.script, method)
        for target, value in (pair for at in ast.walk(method) for pair in given_values(at)):
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Name):
                found |= _given(calls, by, named, value.id) if target.attr == name else set()
    return found
