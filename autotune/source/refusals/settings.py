"""Where a training sets what its samples are made by, of which workers have copies."""

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from autotune.source.calls.writes import (
    assigned,
    is_module,
    keys_set,
    set_by_name,
    shown_by,
    whole_of,
    written_into,
)
from autotune.source.edits import Place
from autotune.source.handed_on import gone_on_with, registered
from autotune.source.loops.around_training import (
    loops_of_training,
    running,
    running_meanwhile,
)
from autotune.source.named import calls_named
from autotune.source.program import Program
from autotune.source.reach import calls_in, functions_named, is_bound
from autotune.source.refusals.dataset_changes import is_held_out
from autotune.source.refusals.whose import MODULE, is_attribute, is_of_another, is_variable
from autotune.source.script import Function, Script, given_to, last_name, names_in, stored_names

_UNNAMED = ("setattr", "vars(", "__dict__", "globals(")  # by which attributes of any name are set
_MODULE = "Module"
_LAYERS = frozenset(("modules", "named_modules", "children", "named_children"))


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
    """What of `program` runs in its training, by names and by functions that were `seen` to."""

    def __init__(self, program: Program, seen: Collection[Place] = ()) -> None:
        self._program = program
        _, over_epochs = loops_of_training(program)
        handed = registered(program)
        later = running(program, [*over_epochs, *handed])
        self._later = later | running(program, gone_on_with(program, later))
        meanwhile = running_meanwhile(program, seen) | running(program, handed)
        self._meanwhile = meanwhile | running(program, gone_on_with(program, meanwhile))

    def sets_later(self, setting: Setting) -> str:
        """Where what runs in the loop over epochs changes `setting`, by whatever name."""
        return _set_in(self._program, self._later, setting)

    def sets_meanwhile(self, setting: Setting) -> str:
        """The same of what runs in the loop over batches."""
        return _set_in(self._program, self._meanwhile, setting)


def _set_in(program: Program, ran: set[ast.AST], setting: Setting) -> str:
    for script in program.scripts.values():
        if not any(each in script.text for each in (setting.name, *setting.setters, *_UNNAMED)):
            continue
        for node in script.nodes:
            if node not in ran or _is_of_held_out(program, ran, script, node):
                continue
            if _sets(program, script, node, setting) or _hands_on(program, script, node, setting):
                return script.at(node)
    return ""


def _is_of_held_out(
    program: Program, ran: Collection[ast.AST], script: Script, node: ast.AST
) -> bool:
    """Whether `node` sets its own object's in a method that is called of held-out data alone."""
    own = [at for at in assigned(node) if ast.unparse(at).startswith("self.")]
    method = script.function(node) if own else None
    if method is None or method.name.startswith("__"):
        return False
    calls = [call.func for _, call in calls_named(program, method.name) if call in ran]
    return bool(calls) and all(
        isinstance(at, ast.Attribute) and is_held_out(at.value) for at in calls
    )


def _sets(program: Program, script: Script, node: ast.AST, setting: Setting) -> bool:
    if setting.inside:
        keys = keys_set(node) if setting.keys else None
        if keys is not None and not keys & setting.keys:
            return False
        attributes = (at for at in assigned(node) if isinstance(at, ast.Attribute))
        memory = [at.value for at in attributes if at.attr == "data"]  # a tensor gets another
        written = _meant(script, node, (*memory, *written_into(node)))
        return any(_is_it(program, script, at, setting) for at in written)
    targets = [*assigned(node)]
    if any(_is_it(program, script, at, setting) for at in targets):
        return True
    if _sets_by_name(program, script, node, setting):
        return True
    targets += [node.func] if isinstance(node, ast.Call) else []
    return any(_is_setter(program, script, at, setting) for at in targets)


def _meant(script: Script, node: ast.AST, written: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """What is `written` into in `node`, and of what a variable among it shows a part."""
    for target in written:
        yield target
        if isinstance(target, ast.Name):
            for value in shown_by(target.id, script.function(node) or script.tree):
                if not (isinstance(node, ast.AugAssign) and isinstance(value, ast.Subscript)):
                    yield whole_of(value)


def _sets_by_name(program: Program, script: Script, node: ast.AST, setting: Setting) -> bool:
    """Whether it is `setattr(schedule, "level", ...)`, or sets what only a run can name."""
    if not setting.kinds and setting.scope != MODULE:
        return False
    for owner, name in set_by_name(node):
        if name not in (None, setting.name):
            continue
        if owner is None:
            return True
        if is_module(owner, script.imports):
            return setting.scope == MODULE
        some = ast.Attribute(value=owner, attr=setting.name, ctx=ast.Store())
        if setting.kinds and is_attribute(
            program, list(script.ancestors(node)), some, setting.kinds
        ):
            return True
    return False


def _is_setter(program: Program, script: Script, target: ast.expr, setting: Setting) -> bool:
    """Whether `target` is a method or a property of a library's object that sets `setting`."""
    match target:
        case ast.Attribute(attr=name, value=owner) if name in setting.setters:
            outside = isinstance(owner, ast.Name) and (
                owner.id == "self" or owner.id in script.imports
            )
            return not outside and not is_of_another(program, owner, setting.kinds)
    return False


def _hands_on(program: Program, script: Script, node: ast.AST, setting: Setting) -> bool:
    """Whether `node` gives `setting` to a function of the program's that changes what is in it."""
    if not (setting.inside and isinstance(node, ast.Call)):
        return False
    own = (each for each in given_to(node) if _is_it(program, script, whole_of(each), setting))
    return any(_changes(program, node, each, frozenset()) for each in own)


def _changes(program: Program, call: ast.Call, given: ast.expr, known: frozenset[str]) -> bool:
    """Whether an own function that `call` may be of changes what is in `given`, or hands it on."""
    name = last_name(call.func)
    for at, function in functions_named(program, name) if name not in known else ():
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        told = [*zip(names[is_bound(at, function) :], call.args, strict=False)]
        told += [(each.arg, each.value) for each in call.keywords if each.arg]
        own = {each for each, value in told if value is given}
        own |= _parts_of(function, own)
        changed = (target for part in ast.walk(function) for target in written_into(part))
        if own & {target.id for target in changed if isinstance(target, ast.Name)}:
            return True
        for inner in calls_in(function):
            handed = (each for each in given_to(inner) if last_name(whole_of(each)) in own)
            if any(_changes(program, inner, each, known | {name}) for each in handed):
                return True
    return False


def _parts_of(function: Function, own: Collection[str]) -> set[str]:
    """The variables of `function` that show a part of its `own`."""
    return {
        name
        for name in names_in(function)
        if any(last_name(whole_of(at)) in own for at in shown_by(name, function))
    }


def _is_it(program: Program, script: Script, target: ast.expr, setting: Setting) -> bool:
    """Whether `target` is `setting`, and not as its object is made or makes a sample."""
    match target:
        case ast.Name(id=name):
            return name == setting.name and is_variable(script, target, setting.scope)
        case ast.Subscript(slice=ast.Constant(value=key)):
            return not (setting.kinds or setting.scope) and key == setting.name
        case ast.Attribute(attr="data", value=owner) if setting.inside and setting.name != "data":
            return _is_it(program, script, whole_of(owner), setting)
        case ast.Attribute(attr=name, value=owner) if setting.scope == MODULE:
            return name == setting.name and is_module(owner, script.imports)
        case ast.Attribute(attr=name, value=owner) if setting.kinds and name == setting.name:
            around = list(script.ancestors(target))
            of_layer = _MODULE not in setting.kinds and _is_layer(around, owner)
            return not of_layer and is_attribute(program, around, target, setting.kinds)
    return False


def _is_layer(around: list[ast.AST], owner: ast.expr) -> bool:
    """Whether `owner`, which stands in `around`, is one of the layers that a loop goes through."""
    loops = [at for at in around if isinstance(at, ast.For)]
    return isinstance(owner, ast.Name) and any(
        owner.id in stored_names(at.target)
        and any(last_name(call.func) in _LAYERS for call in calls_in(at.iter))
        for at in loops
    )
