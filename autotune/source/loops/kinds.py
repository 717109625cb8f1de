"""Of which of the program's classes an object is, told by what its name is given."""

import ast
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import PurePath

from autotune.source.calls.writes import stored_in
from autotune.source.loops.iteration import WRAPPERS
from autotune.source.program import Program
from autotune.source.script import Function, Script, is_none, last_name, root_name

# What gives the model that it is given, with something round it.
_WRAPPING = frozenset(("DataParallel", "DistributedDataParallel", "DDP", "compile"))


def kin(classes: list[ast.ClassDef], kind: ast.ClassDef) -> set[ast.ClassDef]:
    """Those of `classes` by which an object of `kind`, or of what inherits from it, is made."""
    heirs = {kind}
    while more := {at for at in classes if _bases(at) & {each.name for each in heirs}} - heirs:
        heirs |= more
    return set[ast.ClassDef]().union(*(with_bases(classes, each) for each in heirs))


def with_bases(classes: list[ast.ClassDef], kind: ast.ClassDef) -> set[ast.ClassDef]:
    """`kind` and those of `classes` that it inherits from."""
    above = {kind}
    while True:
        wanted = set[str]().union(*map(_bases, above))
        more = {at for at in classes if at.name in wanted} - above
        if not more:
            return above
        above |= more


def _bases(kind: ast.ClassDef) -> set[str]:
    return set(map(last_name, kind.bases))


def classes_of(program: Program) -> list[ast.ClassDef]:
    """The classes that the program defines."""
    return [kind for _, kind in program.classes()]


def classes_built(program: Program, script: Script, name: str) -> list[set[str]]:
    """The own class of each value that `name` is given in `script`; an empty set if not told."""
    classes = {each.name for each in classes_of(program)}
    values = [
        value_of(script.statement(at), at)
        for at in stored_in(script.nodes)
        if ast.unparse(at) == name
    ]
    return [
        _class_built(value, classes)
        for value in values
        if value is None or name not in {ast.unparse(at) for at in ast.walk(value)}
    ]


def _class_built(value: ast.expr | None, classes: Collection[str]) -> set[str]:
    """The one of `classes` that `value` is an object of: `Net(...).to(device)`, also wrapped."""
    while isinstance(value, ast.Call):
        name = last_name(value.func)
        if name in classes:
            return {name}
        if name in _WRAPPING:
            value = value.args[0] if value.args else None
        else:
            value = value.func.value if isinstance(value.func, ast.Attribute) else None
    return set()


class Kinds:
    """The classes of `program`, and which of them objects are of."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._classes = classes_of(program)
        paths = (PurePath(path).with_suffix("") for path in program.scripts)
        self._own = {part for path in paths for part in path.parts}

    def is_imported(self, script: Script, expression: ast.expr) -> bool:
        """Whether `expression` goes by the name of something that a library has."""
        imported = script.imports.get(root_name(expression), ".")
        return not imported.startswith(".") and self._own.isdisjoint(imported.split("."))

    def of(self, script: Script, owner: ast.expr, method: str) -> set[ast.ClassDef] | None:
        """The classes, with bases, that `owner` may be of: none of a library's; None if unknown."""
        found = self._of(script, owner)
        defined = (at for kind in found or () for at in kind.body if isinstance(at, Function))
        if found and method not in {at.name for at in defined}:
            return None
        return found

    def _of(self, script: Script, owner: ast.expr) -> set[ast.ClassDef] | None:
        if isinstance(owner, ast.Name) and owner.id == "self":
            holder = script.class_round(owner)
            return kin(self._classes, holder) if holder else None
        if not isinstance(owner, ast.Name | ast.Attribute):
            return None
        given = self._given.get(self._key(script, owner), [])
        found = [self._built(script, value) for script, value in given]
        if not found or any(each is None for each in found):
            return None
        return set[ast.ClassDef]().union(*(each for each in found if each is not None))

    def _built(self, script: Script, value: ast.expr | None) -> set[ast.ClassDef] | None:
        """The classes of what `value` gives, where it calls one; none for a library's."""
        if is_none(value):
            return set()
        if not isinstance(value, ast.Call):
            return None
        name = last_name(value.func)
        if self.is_imported(script, value.func):
            return set() if name[:1].isupper() or name in WRAPPERS else None
        own = [at for at in self._classes if at.name == name]
        return set().union(*(with_bases(self._classes, at) for at in own)) if own else None

    @cached_property
    def _given(self) -> dict[tuple[str, str], list[tuple[Script, ast.expr | None]]]:
        """What variables (by file and name) and attributes are given; None for what is unseen."""
        found: dict[tuple[str, str], list[tuple[Script, ast.expr | None]]] = {}
        for script in self._program.scripts.values():
            for place, value in _stores(script):
                found.setdefault(self._key(script, place), []).append((script, value))
        return found

    @staticmethod
    def _key(script: Script, place: ast.expr) -> tuple[str, str]:
        if isinstance(place, ast.Attribute):
            return "", place.attr
        return script.path, last_name(place)


def _stores(script: Script) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Variables and attributes of `script` with what each is given; what classes have is both."""
    for at in script.nodes:
        shared = script.function(at) is None or isinstance(at, Function)
        if isinstance(at, ast.Name | ast.Attribute) and isinstance(at.ctx, ast.Store):
            value = value_of(script.statement(at), at)
            yield at, value
            if shared:
                yield _as_attribute(last_name(at)), value
        for name in _bound_otherwise(at):
            yield ast.Name(id=name), None
            if shared or isinstance(at, ast.Call):
                yield _as_attribute(name), None


def value_of(statement: ast.stmt, place: ast.expr) -> ast.expr | None:
    """What `statement` gives to `place`, alone or beside others."""
    if isinstance(statement, ast.With):  # what a bar is entered as, is the bar
        bars = [at for at in statement.items if at.optional_vars is place]
        values = [at.context_expr for at in bars]
        return next((at for at in values if last_name(getattr(at, "func", at)) in WRAPPERS), None)
    if not isinstance(statement, ast.Assign):
        return None
    for target in statement.targets:
        match target, statement.value:
            case _, value if target is place:
                return value
            case ast.Tuple(elts=places), ast.Tuple(elts=values) if place in places:
                starred = any(isinstance(at, ast.Starred) for at in (*places, *values))
                return None if starred else values[places.index(place)]
    return None


def _as_attribute(name: str) -> ast.expr:
    return ast.Attribute(value=ast.Name(id="self"), attr=name)


def _bound_otherwise(node: ast.AST) -> list[str]:
    """The names that `node` binds to what cannot be seen."""
    match node:
        case ast.arg(arg=name) | ast.ClassDef(name=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.Call(func=function, keywords=given) if last_name(function).endswith("Namespace"):
            return [str(at.arg) for at in given]
    return []
