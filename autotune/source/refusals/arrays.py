"""Where NumPy, or what goes by its arrays, is given what modules keep of their forward pass."""

import ast
import functools
from collections import deque
from collections.abc import Iterator, Set
from dataclasses import dataclass

from autotune.source.loops.loss import GATHERING
from autotune.source.named import attributes_by_name, calls_named
from autotune.source.program import Program, holds
from autotune.source.reach import argument_code, calls_in, decorators, functions_named
from autotune.source.refusals.kept_inside import (
    FORWARD,
    OTHER_FORMAT,
    forward_methods,
    is_widening,
    kept_attributes,
    kept_in,
)
from autotune.source.script import (
    Function,
    Script,
    last_name,
    names_in,
    parameters,
    stored_names,
)

# fmt: off
# Packages that make arrays of what they are given, and methods that do.
_OF_ARRAYS = frozenset({"matplotlib", "numpy", "pandas", "scipy", "seaborn", "sklearn"})
_TO_ARRAYS = frozenset({"imshow", "matshow", "numpy"})
# Functions that give what they are given, together with more, or in another order.
_HOLDING = frozenset({
    "cat", "concat", "dict", "enumerate", "list", "reversed", "sorted", "stack", "tuple", "zip",
})
_HOLDERS = (
    ast.Attribute, ast.Await, ast.BinOp, ast.BoolOp, ast.Dict, ast.DictComp, ast.GeneratorExp,
    ast.keyword, ast.List, ast.ListComp, ast.NamedExpr, ast.Set, ast.SetComp, ast.Starred,
    ast.Tuple, ast.UnaryOp,
)
# fmt: on
_OF_TENSORS = frozenset({"T", "data", "mT"})  # attributes that are tensors of the same format
_MODELS = frozenset({FORWARD, "self"})


@dataclass(frozen=True, slots=True)
class _Value:
    """An expression that has what was kept, and its file."""

    script: Script
    node: ast.expr


def given_to_numpy(program: Program, *, on_a_gpu: bool) -> str:
    """Where NumPy is given what modules keep of a forward pass that trains, as autocast left it."""
    waiting = deque(
        value
        for name in sorted(kept_attributes(program, on_a_gpu=on_a_gpu))
        for value in _attributes(program, name)
        if not _is_anothers(program, value)
    )
    known: set[ast.AST] = set()
    while waiting:
        value = waiting.popleft()
        if value.node in known or _is_anew(program, value):
            continue
        known.add(value.node)
        child, above = _end(value)
        if isinstance(above, ast.Call) and _makes_array(value.script, above):
            return value.script.at(above)
        waiting += _goes_on(program, value.script, child, above)
    return ""


def _end(value: _Value) -> tuple[ast.AST, ast.AST]:
    """The largest expression that is `value`, or holds it as it is, and what that stands in."""
    child: ast.AST = value.node
    for above in value.script.ancestors(value.node):
        if not _holds(value.script, child, above):
            return child, above
        child = above
    raise AssertionError("an expression lies in a statement")


def _holds(script: Script, child: ast.AST, above: ast.AST) -> bool:
    """Whether `above` is what `child` is, or holds it."""
    match above:
        case ast.Call(func=function):
            holds = function is child or last_name(function) in _HOLDING
            return holds and not _makes_array(script, above)
        case ast.Attribute():
            return _is_same(script, above)
        case ast.Subscript(value=whole):
            return whole is child
        case ast.IfExp(test=test):
            return test is not child
    return isinstance(above, _HOLDERS)


def _is_same(script: Script, attribute: ast.Attribute) -> bool:
    """Whether `attribute`, or the method that it is, gives a tensor of its owner's format."""
    called = next(script.ancestors(attribute))
    if isinstance(called, ast.Call) and called.func is attribute:
        other = attribute.attr in OTHER_FORMAT or is_widening(called)
        return not other and attribute.attr not in GATHERING
    return attribute.attr in _OF_TENSORS


def _makes_array(script: Script, call: ast.Call) -> bool:
    package = script.qualified(call.func).partition(".")[0]
    return last_name(call.func) in _TO_ARRAYS or package in _OF_ARRAYS


def _goes_on(program: Program, script: Script, child: ast.AST, above: ast.AST) -> Iterator[_Value]:
    """Where else the program has what `child` is, by what `above` does with it."""
    match above:
        case ast.comprehension(target=target):
            yield from _loads(script, next(script.ancestors(above)), stored_names(target))
        case ast.For(target=target):
            yield from _loads(script, above, stored_names(target))
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _stored(program, script, target)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            yield from _stored(program, script, target)
        case ast.Return() | ast.Yield():
            yield from _returned(program, script.function(above))
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in GATHERING:
            yield from _stored(program, script, owner)
        case ast.Call() if isinstance(child, ast.expr):
            yield from _parameters(program, above, child)


def _stored(program: Program, script: Script, target: ast.expr) -> Iterator[_Value]:
    """Where there is what `target` is given, or what is put into it."""
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        yield from _attributes(program, target.attr)
    else:
        within = script.function(target) or script.tree
        yield from _loads(script, within, stored_names(target) or {last_name(target)})


def _returned(program: Program, function: Function | None) -> Iterator[_Value]:
    """The calls of `function`, or where its object has it as a property."""
    if function is None or function.name == FORWARD:
        return
    if decorators(function) & {"property", "cached_property"}:
        yield from _attributes(program, function.name)
    for script, call in calls_named(program, function.name):
        yield _Value(script, call)


def _parameters(program: Program, call: ast.Call, given: ast.expr) -> Iterator[_Value]:
    """Where the functions of the program that `call` may call have what they are `given`."""
    code = ast.unparse(given)
    for script, function in functions_named(program, last_name(call.func)):
        names = parameters(function)
        same = {name for name in names if argument_code(call, script, function, name) == code}
        yield from _loads(script, function, same)


def _loads(script: Script, within: ast.AST, names: Set[str]) -> Iterator[_Value]:
    for node in ast.walk(within):
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            yield _Value(script, node)


def _attributes(program: Program, name: str) -> Iterator[_Value]:
    """Where the program reads the attribute `name`, no method, outside of a forward pass."""
    for script in program.scripts.values():
        for node in attributes_by_name(script).get(name, ()):
            above = next(script.ancestors(node))
            called = isinstance(above, ast.Call) and above.func is node
            if isinstance(node.ctx, ast.Load) and not called and node not in _forward(script):
                yield _Value(script, node)


def _is_anothers(program: Program, value: _Value) -> bool:
    """Whether `value` is an attribute that an object without a forward pass gives itself."""
    kind = value.script.class_round(value.node)
    if kind is None:
        return False
    methods = (at for at in kind.body if isinstance(at, Function))
    given = {f"self.{name}" for each in methods for name, _ in kept_in(each)}
    modules = {
        at.name
        for script, function in functions_named(program, FORWARD)
        for at in script.ancestors(function)
        if isinstance(at, ast.ClassDef)
    }
    is_a_module = not modules.isdisjoint((kind.name, *map(last_name, kind.bases)))
    return ast.unparse(value.node) in given and not is_a_module


@functools.lru_cache(maxsize=1024)  # it is asked for each name, and a Script does not change
def _forward(script: Script) -> Set[ast.AST]:
    """All that stands in forward passes of `script`."""
    return {node for method in forward_methods(script) for node in ast.walk(method)}


def _is_anew(program: Program, value: _Value) -> bool:
    """Whether the last call of a model before `value`, or of what has it, is none that trains."""
    script = value.script
    places = program.places.outputs
    names = _MODELS.union(names_in(value.node))
    names |= {each.callee.rpartition(".")[2] for each in places}
    function = script.function(value.node)
    calls = [
        call
        for call in calls_in(function or script.tree)
        if last_name(call.func) in names
        if script.function(call) is function and script.start(call) < script.start(value.node)
    ]
    last = max(calls, key=script.start, default=None)
    return last is not None and not holds(script, last, places)
