"""Functions of a program that its text does not call by their names, but leaves with others."""

import ast
from collections.abc import Collection, Iterable, Iterator

from autotune.source.calls.writes import gone_through
from autotune.source.named import calls_named, values_by_name
from autotune.source.program import Program
from autotune.source.reach import callers, decorators, functions_named
from autotune.source.script import Function, Script, covers, given_to, last_name

_THREADS = frozenset(("Thread", "Timer"))
# What calls a function, or an object, that it is given: beside the training, or as that steps.
_CALLING = _THREADS | {"signal", "start_new_thread", "LambdaLR", "MultiplicativeLR"}
# How methods begin that are given functions to call later.
_LEAVING = ("add", "on", "append", "subscribe", "connect", "attach", "listen", "hook")


def registered(program: Program) -> list[ast.AST]:
    """The functions that the program leaves with others to be called at some time, by a decorator
    of an object's, a method whose name says so, with a thread, a signal or a schedule, or in a list
    or a table of them (`{12: harden}`), but for those that come to run its training. Where it finds
    attributes by names that only a run knows (`getattr(listener, event)`), its methods too that no
    text of it names.
    """
    found: list[ast.AST] = [*_found_by_name(program), *called_objects(program)]
    at = program.places.backward
    for script, node in program.nodes():
        if isinstance(node, Function):
            found += [node] if _is_kept(program, node) or _is_of_thread(script, node) else []
        elif isinstance(node, ast.Call) and (_leaves(node) or last_name(node.func) in _CALLING):
            found += _left(program, given_to(node))
        elif isinstance(node, ast.Dict):
            found += _left(program, node.values)
        elif isinstance(node, ast.List):
            found += (at for at in _left(program, node.elts) if _gives_nothing(at))
        elif isinstance(node, ast.Tuple):  # `return train, test` may be of data
            found += (at for at in node.elts if isinstance(at, ast.Lambda))
    if at is None:
        return found
    trees = [script.tree for path, script in program.scripts.items() if path == at.path]
    held = [each for tree in trees for each in ast.walk(tree) if isinstance(each, Function)]
    inside = {each.name for each in held if covers(each, at.line)}
    training = {name for each in inside for name in callers(program, each)}
    return [each for each in found if getattr(each, "name", "") not in training]


def _is_kept(program: Program, function: Function) -> bool:
    """Whether a decorator leaves `function` with an object, or with whom none calls it by name."""
    if any(map(_leaves, function.decorator_list)):
        return True
    names = decorators(function) - {""}
    own = any(next(functions_named(program, name), None) for name in names)
    if not own or not _gives_nothing(function):
        return False
    return not any(calls_named(program, function.name))


def _is_of_thread(script: Script, function: Function) -> bool:
    """Whether it is what a class of threads runs."""
    kind = next(script.ancestors(function), None)
    return (
        function.name == "run"
        and isinstance(kind, ast.ClassDef)
        and any(last_name(base) in _THREADS for base in kind.bases)
    )


def _gives_nothing(function: ast.AST) -> bool:
    """Whether it is called for what it changes: a lambda may be."""
    returned = (at for at in ast.walk(function) if isinstance(at, ast.Return | ast.Yield))
    return all(at.value is None for at in returned)


def _left(program: Program, values: Iterable[ast.expr]) -> Iterator[ast.AST]:
    """What of `values` is a function, written there, named, or given some of its arguments."""
    for value in values:
        if isinstance(value, ast.Lambda):
            yield value
        elif isinstance(value, ast.Call) and last_name(value.func) == "partial":
            yield from _left(program, value.args[:1])
        elif name := last_name(value):
            yield from (each for _, each in functions_named(program, name))


def called_objects(program: Program) -> list[Function]:
    """The `__call__` of objects that are given to a thread, a signal or a schedule."""
    scripts = program.scripts.values()
    calls = [call for name in _CALLING for _, call in calls_named(program, name)]
    kinds = set[str]()
    for value in (value for call in calls for value in given_to(call)):
        named = (at for each in scripts for at in values_by_name(each).get(last_name(value), ()))
        made = [value] if isinstance(value, ast.Call) else [*named]
        kinds |= {last_name(at.func) for at in made if isinstance(at, ast.Call)}
    return [
        method
        for script, method in functions_named(program, "__call__")
        if getattr(next(script.ancestors(method), None), "name", "") in kinds
    ]


def _leaves(call: ast.expr) -> bool:
    """Whether it is `bell.on("step")`, `model.register_forward_hook(...)`, `hooks.append(...)`."""
    function = call.func if isinstance(call, ast.Call) else call
    if not isinstance(function, ast.Attribute):
        return False
    name = function.attr
    return name.startswith(_LEAVING) or (name.startswith("register") and "hook" in name)


def _found_by_name(program: Program) -> list[ast.AST]:
    if not any(_makes_up(call, script.imports) for script, call in program.calls()):
        return []
    named = {last_name(at) for _, at in program.nodes() if isinstance(at, ast.expr)}
    return [
        method
        for method in program.methods()
        if method.name not in named and not method.name.startswith("__")
    ]


def _makes_up(call: ast.Call, imports: Collection[str]) -> bool:
    """Whether it is `getattr(listener, event)`, and no `getattr(models, name)` of a module's."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
            return False
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, *_]):
            names = (at.id for at in ast.walk(owner) if isinstance(at, ast.Name))
            return next(names, "") not in imports
        case ast.Call(func=function, args=[name, *_]) if last_name(function) == "methodcaller":
            return not isinstance(name, ast.Constant)
    return False


def gone_on_with(program: Program, nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """The generators, and own `__next__`, of which `nodes` take by `next`, `send` or a loop."""
    names = {last_name(at) for node in nodes for at in _taken_of(node)} - {""}
    made = {
        last_name(node.value.func)
        for _, node in program.nodes()
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if not names.isdisjoint(map(last_name, node.targets))
    }
    return [
        each
        for _, node in program.nodes()
        if isinstance(node, Function | ast.ClassDef) and node.name in made
        for each in (node.body if isinstance(node, ast.ClassDef) else [node])
        if isinstance(each, Function)
        if (each.name == "__next__" if each is not node else _yields(each))
    ]


def _taken_of(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id="next"), args=[generator, *_]):
            return [generator]
        case ast.Call(func=ast.Attribute(value=generator, attr="send")):
            return [generator]
        case ast.For(iter=given):
            return [given, *gone_through(given)]
    return []


def _yields(function: Function) -> bool:
    return any(isinstance(at, ast.Yield | ast.YieldFrom) for at in ast.walk(function))
