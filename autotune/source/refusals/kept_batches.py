"""Where a training keeps tensors of batches: one from a worker holds an open file as it lives."""

import ast
from collections.abc import Iterator, Sequence, Set

from autotune.source.calls.writes import given_values
from autotune.source.loops.around_training import own_loops, running
from autotune.source.places import is_copy
from autotune.source.program import Program
from autotune.source.refusals.batch_uses import batch_of
from autotune.source.script import (
    Function,
    Script,
    covers,
    is_method,
    names_in,
    stored_names,
    straight,
)

_BY_NAME = "file_system"  # torch's other strategy of sharing them, without open files
_KEEPING = frozenset(("append", "extend", "add", "put", "appendleft", "update"))
_SHOWING = frozenset(("detach", "cpu", "view", "squeeze", "numpy"))  # the same memory, on a CPU
_EMPTYING = frozenset(("clear", "pop", "popleft"))


def kept_for_good(program: Program) -> str:
    """Where a loop puts its batches' tensors, no copies, into what no loop round it begins anew."""
    if any(_BY_NAME in script.text for script in program.scripts.values()):
        return ""
    inner, outer = own_loops(program)
    ran = running(program, [*inner, *outer])
    begun = {name for node in ran for name in _begun_anew(node)}
    for script in program.scripts.values():
        for loop in (at for at in script.nodes if at in inner):
            copied = list(_copied(program, script, loop))
            own = _batch_names(script, loop, copied)
            for node in (at for at in ast.walk(loop) if isinstance(at, ast.expr | ast.stmt)):
                if _is_kept(program, node, own - _before(script, node, copied), begun):
                    return script.at(node)
    return ""


def _is_kept(program: Program, node: ast.AST, own: Set[str], begun: Set[str]) -> bool:
    """Whether `node` puts one of `own` into what is not `begun` anew, by no other own method."""
    if not any(container not in begun for container in _keeping(node, own)):
        return False
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=args):
            methods = [method for method in program.methods() if method.name == name]
            return any(_keeps(each, begun) for each in methods) if methods else len(args) == 1
    return True


def _keeps(method: Function, begun: Set[str]) -> bool:
    """Whether it puts what it is given into what is not `begun` anew."""
    given = {each.arg for each in method.args.args[1:]}
    kept = (container for node in ast.walk(method) for container in _keeping(node, given))
    return any(container not in begun for container in kept)


def _copied(program: Program, script: Script, loop: ast.AST) -> Iterator[tuple[int, str]]:
    """The variables that each turn gives a seen copy on a device, and nothing later, and where."""
    lines = [at.line for at in program.places.copies if at.path == script.path]
    given = [
        (script.end(node), stored_names(target))
        for node in straight(getattr(loop, "body", ()))
        for target, value in _given(node)
        if _is_copied(script, value, lines)
    ]
    copied = set[str]().union(*(names for _, names in given))
    for end, names in given:
        later = set(_given_later(script, loop, end, copied))
        yield from ((end, name) for name in names - later)


def _is_copied(script: Script, value: ast.expr, lines: Sequence[int]) -> bool:
    """Whether `value` is such a copy (`lines`), made of one by its methods, or several of them."""
    match value:
        case ast.Call() if is_copy(script, value) and any(covers(value, at) for at in lines):
            return True
        case (
            ast.Call(func=ast.Attribute(value=part))
            | ast.Subscript(value=part)
            | ast.ListComp(elt=part)
            | ast.GeneratorExp(elt=part)
            | ast.DictComp(value=part)
            | ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.GeneratorExp(elt=part)])
        ):
            parts = [part]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            pass
        case _:
            return False
    return bool(parts) and all(_is_copied(script, part, lines) for part in parts)


def _given_later(script: Script, loop: ast.AST, end: int, copied: Set[str]) -> Iterator[str]:
    """The variables that `loop` gives a batch, or part of one, after `end`, none of a copy."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign | ast.For) and script.start(node) >= end:
            for target, value in _given(node):
                if _is_drawn(value) or not copied >= set(_tensors(value)):
                    yield from stored_names(target)


def _is_drawn(value: ast.expr) -> bool:
    """Whether `value` is the next batch."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "next"


def _given(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What `node` gives which value."""
    return [(node.target, node.iter)] if isinstance(node, ast.For) else list(given_values(node))


def _before(
    script: Script, node: ast.expr | ast.stmt, copied: Sequence[tuple[int, str]]
) -> set[str]:
    """Those of the variables `copied` that are so before `node`."""
    return {name for end, name in copied if end <= script.start(node)}


def _batch_names(script: Script, loop: ast.AST, copied: Sequence[tuple[int, str]]) -> set[str]:
    """The variables of `loop` that are a batch, or a part of one, before they are `copied`."""
    own = stored_names(batch_of(script, loop)) if isinstance(loop, ast.For) else set[str]()
    while True:
        more = set[str]()
        for node in ast.walk(loop):
            if isinstance(node, ast.Assign):
                held = own - _before(script, node, copied)
                if _is_drawn(node.value) or any(each in held for each in _tensors(node.value)):
                    more |= {name for target in node.targets for name in stored_names(target)}
        if more <= own:
            return own
        own |= more


def _tensors(value: ast.expr) -> Iterator[str]:
    """The variables that `value` is, or that it puts side by side: not what is computed of them."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from _tensors(part)
        case ast.Subscript(value=of) | ast.Attribute(value=of):
            yield from _tensors(of)
        case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in _SHOWING:
            yield from _tensors(of)


def _keeping(node: ast.AST, own: Set[str]) -> Iterator[str]:
    """What `node` puts one of `own` into; arrays, and lists that an array extends, take numbers."""
    kept: Sequence[ast.expr]
    match node:
        case ast.Call(func=ast.Attribute(attr="extend"), args=[ast.Call() as array]) if is_method(
            array, "numpy"
        ):
            return
        case ast.Call(func=ast.Attribute(value=into, attr=name), args=given):
            kept = given if name in _KEEPING else ()
        case ast.Assign(targets=[ast.Subscript(value=into, slice=key)], value=value):
            kept = () if _is_of_an_array(key, own) else (value,)
        case ast.AugAssign(target=into, op=ast.Add(), value=ast.List() as value):
            kept = (value,)
        case _:
            return
    if not all(own.isdisjoint(_tensors(each)) for each in kept):
        yield ast.unparse(into)


def _is_of_an_array(key: ast.expr, own: Set[str]) -> bool:
    """Whether `key` says places of an array, by a slice or one of the variables `own`."""
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    return any(isinstance(at, ast.Slice) or not own.isdisjoint(_tensors(at)) for at in parts)


def _begun_anew(node: ast.AST) -> Iterator[str]:
    """What `node` gives another value, or empties."""
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    yield ast.unparse(target)
                elif isinstance(target, ast.Tuple):
                    yield from map(ast.unparse, target.elts)
        case ast.AnnAssign(target=target, value=ast.expr()):
            yield ast.unparse(target)
        case ast.Delete(targets=targets):
            yield from (name for target in targets for name in names_in(target))
        case ast.Call(func=ast.Attribute(value=container, attr=name)) if name in _EMPTYING:
            yield ast.unparse(container)
