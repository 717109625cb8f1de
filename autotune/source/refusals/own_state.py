"""Where a program changes what an optimizer has and keeps, in whatever step."""

import ast
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from autotune.source.calls.writes import assigned, keys_set
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.refusals.loads import names_of
from autotune.source.script import Function, Script, last_name

_DROPPING = frozenset(("pop", "popitem", "clear"))
_OF_ONE = frozenset(("get", "setdefault"))
_OF_ALL = frozenset(("values", "items"))
_ADDING = frozenset(("append", "extend", "insert"))
_JOINING = "add_param_group"
_COMPLEX = re.compile(r"complex(?!it)|cfloat|cdouble|chalf|fft|^polar$|^hilbert$")
_LIKE = frozenset(("zeros_like", "ones_like", "full_like"))  # in the number format of what is given


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What the optimizers of these `names` keep, as one file writes it; `entries` are the variables
    of its functions that are what is kept of one weight.
    """

    script: Script
    names: Collection[str]
    entries: frozenset[tuple[Function | None, str]] = frozenset()

    def is_whole(self, part: ast.expr) -> bool:
        """Whether `part` is `optimizer.state`."""
        match part:
            case ast.Attribute(attr="state", value=optimizer):
                return last_name(optimizer) in self.names
        return False

    def is_entry(self, part: ast.expr) -> bool:
        """Whether `part` is what is kept of one weight: `optimizer.state[weight]`."""
        match part:
            case ast.Subscript(value=whole):
                return self.is_whole(whole)
            case ast.Call(func=ast.Attribute(attr=method, value=whole)):
                return method in _OF_ONE and self.is_whole(whole)
            case ast.Name(id=name):
                return (self.script.function(part), name) in self.entries
        return False


def counted_anew(program: Program, built: Sequence[Call]) -> str:
    """Where a weight is given another count of its steps, of an optimizer that is `built` so."""
    return _first(program, built, _counts_anew)


def forgotten(program: Program, built: Sequence[Call]) -> str:
    """Where what is kept of one weight (not of all) is dropped, or something else put there."""
    return _first(program, built, _forgets)


def extended(program: Program, built: Sequence[Call]) -> str:
    """Where it puts weights into a group that such an optimizer has already."""
    return _first(program, built, _extends, words=".param_groups")


def joined(program: Program, built: Sequence[Call]) -> str:
    """Where weights join, in a program that has complex ones, or sparse gradients."""
    if not any(_is_unfused(at) for _, at in program.nodes()):
        return ""
    return _first(program, built, _joins, words=_JOINING)


def _is_unfused(node: ast.AST) -> bool:
    """Whether `node` names complex numbers, or asks for gradients that are sparse."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return bool(_COMPLEX.search(name))
        case ast.keyword(arg="sparse", value=ast.Constant(value=value)):
            return bool(value)
    return False


def _first(
    program: Program,
    built: Sequence[Call],
    does: Callable[[_State, ast.AST], bool],
    words: str = ".state",
) -> str:
    names = names_of(program, built)
    for script in program.scripts.values():
        if words not in script.text:
            continue
        state = _State(script=script, names=names)
        named = {each for node in script.nodes if (each := _named(state, node))}
        state = _State(script=script, names=names, entries=frozenset(named))
        for node in script.nodes:
            if does(state, node):
                return script.at(node)
    return ""


def _named(state: _State, node: ast.AST) -> tuple[Function | None, str] | None:
    """The variable that `node` gives what is kept of one weight, with its function."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if state.is_entry(value):
            return state.script.function(node), name
        case ast.For(
            target=target, iter=ast.Call(func=ast.Attribute(attr=method, value=whole))
        ) if method in _OF_ALL and state.is_whole(whole):
            last = target.elts[-1] if isinstance(target, ast.Tuple) else target
            return state.script.function(node), last_name(last)
    return None


def _counts_anew(state: _State, node: ast.AST) -> bool:
    if "step" not in (keys_set(node) or ()):
        return False
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=entry)):
            return method != "pop" and state.is_entry(entry)
        case ast.Assign(
            value=ast.Call(
                func=made,
                args=[ast.Subscript(value=entry, slice=ast.Constant(value="step")), *_],
                keywords=named,
            )
        ) if last_name(made) in _LIKE and state.is_entry(entry):
            return any(each.arg == "dtype" for each in named)
    targets = assigned(node)
    return any(isinstance(at, ast.Subscript) and state.is_entry(at.value) for at in targets)


def _forgets(state: _State, node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=targets):
            return any(isinstance(at, ast.Subscript) and state.is_entry(at) for at in targets)
        case ast.Delete(targets=targets):
            wholes = [at.value for at in targets if isinstance(at, ast.Subscript)]
            return any(state.is_whole(at) or state.is_entry(at) for at in wholes)
        case ast.Call(func=ast.Attribute(attr=method, value=whole)) if method in _DROPPING:
            return state.is_entry(whole) or (method == "pop" and state.is_whole(whole))
    return False


def _joins(state: _State, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=optimizer)):
            return method == _JOINING and last_name(optimizer) in state.names
    return False


def _extends(state: _State, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=weights)) if method in _ADDING:
            return _is_of_group(state, weights)
    return any(_is_of_group(state, at) for at in assigned(node))


def _is_of_group(state: _State, part: ast.expr) -> bool:
    """Whether `part` is `optimizer.param_groups[...]["params"]`."""
    match part:
        case ast.Subscript(
            value=ast.Subscript(value=ast.Attribute(attr="param_groups", value=optimizer)),
            slice=ast.Constant(value="params"),
        ):
            return last_name(optimizer) in state.names
    return False
