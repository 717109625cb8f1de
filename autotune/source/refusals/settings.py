"""Where a training sets what its samples are made by: workers read from copies of that, from the
start of an epoch, or, where they live on, from the start.
"""

import ast
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from autotune.source.calls.writes import assigned, keys_set, whole_of, written_into
from autotune.source.loops.around_training import (
    loops_of_training,
    running,
    running_meanwhile,
)
from autotune.source.program import Program
from autotune.source.reach import calls_in, functions_named, is_bound, registered
from autotune.source.script import Function, Script, last_name

MODULE = "<module>"
_OF_TENSORS = frozenset(("data", "grad"))  # attributes that are set of weights
_UNNAMED = ("setattr(", "vars(", "__dict__")  # by which attributes of any name are set
_MAKING = frozenset(("__getitem__", "__getitems__", "__iter__", "__next__", "__call__"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What samples are made by, under a name that the program has for it.

    Attributes:
        path: what it is, from the dataset on.
        name: of an attribute of an object of `kinds`, of a variable of `scope`, or, without either,
            of an item of a dict.
        kinds: names of classes.
        scope: the name of the function whose variable it is, or `MODULE`.
        inside: who changes what is in it changes samples: an array or a container. Otherwise who
            puts something else in its place.
        keys: of a dict, by which items alone samples are made; none where any may be.
        setters: of a library's class, its methods and properties that set the attribute.
    """

    path: str
    name: str
    kinds: tuple[str, ...] = ()
    scope: str = ""
    inside: bool = False
    keys: frozenset[str] = frozenset()
    setters: frozenset[str] = frozenset()


class Training:
    """What of `program` runs in its training, as far as names tell."""

    def __init__(self, program: Program) -> None:
        self._program = program
        _, over_epochs = loops_of_training(program)
        handed = registered(program)
        self._later = running(program, [*over_epochs, *handed])
        self._meanwhile = running_meanwhile(program) | running(program, handed)

    def sets_later(self, setting: Setting) -> str:
        """Where what runs in the loop over epochs changes `setting`, by whatever name it has the
        object or dict that it belongs to: file and line, "" where it is not seen to.
        """
        return _set_in(self._program, self._later, setting)

    def sets_meanwhile(self, setting: Setting) -> str:
        """The same of what runs in the loop over batches."""
        return _set_in(self._program, self._meanwhile, setting)


def _set_in(program: Program, ran: set[ast.AST], setting: Setting) -> str:
    for script in program.scripts.values():
        if not any(each in script.text for each in (setting.name, *setting.setters, *_UNNAMED)):
            continue
        for node in script.nodes:
            if node in ran and (
                _sets(program, script, node, setting) or _hands_on(program, script, node, setting)
            ):
                line = getattr(node, "lineno", 1)
                return f"{os.path.basename(script.path)}:{line}"
    return ""


def _sets(program: Program, script: Script, node: ast.AST, setting: Setting) -> bool:
    if setting.inside:
        keys = keys_set(node) if setting.keys else None
        if keys is not None and not keys & setting.keys:
            return False
        return any(_is_it(program, script, at, setting) for at in written_into(node))
    targets = [*assigned(node)]
    if any(_is_it(program, script, at, setting) for at in targets):
        return True
    if isinstance(node, ast.Call):
        if _sets_by_name(program, script, node, setting):
            return True
        targets = [node.func]
    return any(_is_setter(program, script, at, setting) for at in targets)


def _sets_by_name(program: Program, script: Script, call: ast.Call, setting: Setting) -> bool:
    """Whether it is `setattr(schedule, "level", ...)`, or sets an attribute whose name only a run
    knows: `setattr(schedule, name, ...)`, `vars(schedule).update(...)`.
    """
    if not setting.kinds and setting.scope != MODULE:
        return False
    match call:
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=name), *_]):
            return name == setting.name
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, _, _]):
            pass
        case ast.Call(
            func=ast.Attribute(
                attr="update",
                value=ast.Call(func=ast.Name(id="vars"), args=[owner])
                | ast.Attribute(attr="__dict__", value=owner),
            )
        ):
            pass
        case _:
            return False
    if setting.scope == MODULE:
        return isinstance(owner, ast.Name) and owner.id in script.imports
    some = ast.copy_location(ast.Attribute(value=owner, attr=setting.name, ctx=ast.Store()), call)
    return _is_attribute(program, list(script.ancestors(call)), some, setting.kinds)


def _is_setter(program: Program, script: Script, target: ast.expr, setting: Setting) -> bool:
    """Whether `target` is a method or a property of a library's object that sets `setting`."""
    match target:
        case ast.Attribute(attr=name, value=owner) if name in setting.setters:
            outside = isinstance(owner, ast.Name) and (
                owner.id == "self" or owner.id in script.imports
            )
            return not outside and not _is_of_another(program, owner, setting.kinds)
    return False


def _hands_on(program: Program, script: Script, node: ast.AST, setting: Setting) -> bool:
    """Whether `node` gives `setting` to a function of the program's that changes what is in it."""
    if not (setting.inside and isinstance(node, ast.Call)):
        return False
    for at, function in functions_named(program, last_name(node.func)):
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        given = dict(zip(names[is_bound(at, function) :], node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg}
        own = {
            name
            for name, value in given.items()
            if _is_it(program, script, whole_of(value), setting)
        }
        changed = (target for part in ast.walk(function) for target in written_into(part))
        if own & {target.id for target in changed if isinstance(target, ast.Name)}:
            return True
    return False


def _is_it(program: Program, script: Script, target: ast.expr, setting: Setting) -> bool:
    """Whether `target` is `setting`; what an object sets as it is made is its own, as is what it
    changes while it makes a sample, which is looked at where samples are compared.
    """
    match target:
        case ast.Name(id=name):
            return name == setting.name and _is_variable(script, target, setting)
        case ast.Subscript(slice=ast.Constant(value=key)):
            return not (setting.kinds or setting.scope) and key == setting.name
        case ast.Attribute(attr="data", value=owner) if setting.inside and setting.name != "data":
            return _is_it(program, script, whole_of(owner), setting)
        case ast.Attribute(attr=name, value=ast.Name(id=owner)) if setting.scope == MODULE:
            return name == setting.name and owner in script.imports
        case ast.Attribute(attr=name) if setting.kinds and name == setting.name:
            return _is_attribute(program, list(script.ancestors(target)), target, setting.kinds)
    return False


def _is_attribute(
    program: Program, around: list[ast.AST], target: ast.Attribute, kinds: Collection[str]
) -> bool:
    """Whether `target`, which stands in `around`, belongs to an object of `kinds` that is there
    already, and does not make a sample just then.
    """
    functions = {at.name for at in around if isinstance(at, Function)}
    if "__init__" in functions:
        return False
    if not (isinstance(target.value, ast.Name) and target.value.id == "self"):
        return target.attr not in _OF_TENSORS and not _is_of_another(program, target.value, kinds)
    of = next((at for at in around if isinstance(at, ast.ClassDef)), None)
    if of is None or of.name not in kinds:
        return False
    return functions.isdisjoint(_makers(of) | _initializers(program, of))


def _is_of_another(program: Program, owner: ast.expr, kinds: Collection[str]) -> bool:
    """Whether all that the program gives to variables and attributes of that name are objects of
    other classes: of its own, or, of an object of a library's, of any by their names.
    """
    nodes = [node for script in program.scripts.values() for node in script.nodes]
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    of_library = classes.isdisjoint(kinds)
    given = [
        node.value
        for node in nodes
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
    calls = [each for script in program.scripts.values() for each in script.calls]
    while True:
        own = [each for name in found for each in calls_in(methods[name])]
        more = {last_name(each.func) for each in own} & methods.keys() - found
        inside = set(own)
        more -= {last_name(each.func) for each in calls if each not in inside}
        if not more:
            return found
        found |= more


def _is_variable(script: Script, name: ast.Name, setting: Setting) -> bool:
    """Whether `name` is the variable `setting`; of a variable that a function reads, but has not
    itself, only that it is a module's or that of a function round it.
    """
    if not setting.scope:
        return False
    around = [at for at in script.ancestors(name) if isinstance(at, Function)]
    owner = next((at for at in around if _binds(at, name.id)), None)
    if owner is None:
        return setting.scope == MODULE
    return setting.scope == owner.name or (setting.scope == MODULE and _lends(owner, name.id))


def _binds(function: Function, name: str) -> bool:
    """Whether `name` is a variable of `function` itself."""
    arguments = function.args
    given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if any(each.arg == name for each in given):
        return True
    bound = False
    for node in _own_nodes(function):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names) if name in names:
                return False
            case ast.Name(id=other, ctx=ast.Store()):
                bound |= other == name
    return bound


def _lends(function: Function, name: str) -> bool:
    """Whether a function or class inside `function` reads that variable of it."""
    own = {node for node in _own_nodes(function) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Name) and node.id == name and node not in own
        for node in ast.walk(function)
    )


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """What `function` runs itself: without the functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
