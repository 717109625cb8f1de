"""Whose an attribute or a variable is that a program's text sets, as far as names tell."""

import ast
from collections.abc import Collection

from autotune.source.handed_on import called_objects
from autotune.source.program import Program
from autotune.source.reach import calls_in, own_code
from autotune.source.script import Function, Script, last_name

MODULE = "<module>"
_OF_TENSORS = frozenset(("data", "grad"))  # attributes that are set of weights
_MAKING = frozenset(("__getitem__", "__getitems__", "__iter__", "__next__", "__call__"))


def is_attribute(
    program: Program, around: list[ast.AST], target: ast.Attribute, kinds: Collection[str]
) -> bool:
    """Whether `target` is of an object of `kinds` that is there already, and makes no sample."""
    functions = {at.name for at in around if isinstance(at, Function)}
    if "__init__" in functions:
        return False
    if not (isinstance(target.value, ast.Name) and target.value.id == "self"):
        return target.attr not in _OF_TENSORS and not is_of_another(program, target.value, kinds)
    of = next((at for at in around if isinstance(at, ast.ClassDef)), None)
    if of is None or of.name not in kinds:
        return False
    makers = _makers(of) - {at.name for at in called_objects(program) if at in of.body}
    return functions.isdisjoint(makers | _initializers(program, of))


def is_of_another(program: Program, owner: ast.expr, kinds: Collection[str]) -> bool:
    """Whether `owner` is another own class, or is only given objects of others than `kinds`."""
    classes = {kind.name for _, kind in program.classes()}
    if isinstance(owner, ast.Name) and owner.id in classes:
        return owner.id not in kinds
    of_library = classes.isdisjoint(kinds)
    given = [
        node.value
        for _, node in program.nodes()
        if isinstance(node, ast.Assign) and last_name(owner) in map(last_name, node.targets)
    ]
    return bool(given) and all(
        isinstance(value, ast.Call)
        and (name := last_name(value.func)) not in kinds
        and (name in classes or (of_library and name[:1].isupper()))
        for value in given
    )


def _makers(kind: ast.ClassDef) -> set[str]:
    """The methods of a class that make samples, as far as its own names tell."""
    methods = {at.name: at for at in kind.body if isinstance(at, Function)}
    found = _MAKING & methods.keys()
    while more := {
        call.func.attr
        for name in found
        for call in calls_in(methods[name])
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods.keys() - found
    }:
        found |= more
    return set(found)


def _initializers(program: Program, kind: ast.ClassDef) -> set[str]:
    """The methods of a class that only its `__init__` calls, as far as names tell."""
    methods = {at.name: at for at in kind.body if isinstance(at, Function)}
    found = {"__init__"} & methods.keys()
    calls = [each for _, each in program.calls()]
    while True:
        own = [each for name in found for each in calls_in(methods[name])]
        more = {last_name(each.func) for each in own} & methods.keys() - found
        inside = set(own)
        more -= {last_name(each.func) for each in calls if each not in inside}
        if not more:
            return found
        found |= more


def is_variable(script: Script, name: ast.Name, scope: str) -> bool:
    """Whether `name` is that variable of `scope`, or at least of a module or function round it."""
    if not scope:
        return False
    around = [at for at in script.ancestors(name) if isinstance(at, Function)]
    owner = next((at for at in around if _binds(at, name.id)), None)
    if owner is None:
        return scope == MODULE
    return scope == owner.name or (scope == MODULE and _lends(owner, name.id))


def _binds(function: Function, name: str) -> bool:
    """Whether `name` is a variable of `function` itself."""
    arguments = function.args
    given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if any(each.arg == name for each in given):
        return True
    bound = False
    for node in own_code(function):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names) if name in names:
                return False
            case ast.Name(id=other, ctx=ast.Store()):
                bound |= other == name
    return bound


def _lends(function: Function, name: str) -> bool:
    """Whether a function or class inside `function` reads that variable of it."""
    own = {node for node in own_code(function) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Name) and node.id == name and node not in own
        for node in ast.walk(function)
    )
