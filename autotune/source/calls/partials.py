"""Loaders that are built by what `functools.partial(DataLoader, ...)` gives, under its names."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import defaults_of, is_bound
from autotune.source.script import Function, Script, covers, last_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """A `partial(DataLoader, ...)`, its names in the program, and what hands it on between them."""

    call: Call
    names: frozenset[str]
    handed: frozenset[ast.expr]

    def builds(self, call: ast.Call) -> bool:
        """Whether `call` is one of what this gives, by its name."""
        return call.func is self.call.node or last_name(call.func) in self.names

    def is_for(self, call: ast.Call, program: Program) -> bool:
        """Whether the program does nothing else with it than that `call`."""
        return all(at in self.handed or at is call.func for at in _named(program, self.names))

    def is_all_of(self, program: Program) -> bool:
        """Whether its names are given nothing else in the program."""
        return all(
            isinstance(holder := script.statement(at), ast.Assign | ast.AnnAssign)
            and holder.value in self.handed
            for script, at in program.nodes()
            if isinstance(at, ast.Name | ast.Attribute)
            and isinstance(at.ctx, ast.Store)
            and last_name(at) in self.names
        )


def _named(program: Program, names: Collection[str]) -> Iterator[ast.expr]:
    """Where the program reads what has one of these `names`."""
    for _, at in program.nodes():
        read = isinstance(at, ast.Name | ast.Attribute) and isinstance(at.ctx, ast.Load)
        if isinstance(at, ast.expr) and read and last_name(at) in names:
            yield at


def partials(program: Program) -> list[Partial]:
    """Those of DataLoader, in all files."""
    made = [
        Call(script=script, node=call, what="partial(DataLoader, ...)")
        for script, call in program.calls()
        if call.args and last_name(call.func) == "partial" and _is_loader(script, call.args[0])
    ]
    return [_followed(program, call) for call in made]


def _is_loader(script: Script, kind: ast.expr) -> bool:
    """Whether `kind` is the class itself, by a name of its own in the file or not."""
    return script.qualified(kind).rpartition(".")[2] == "DataLoader"


def unfollowed(program: Program, made: Collection[Partial]) -> Partial | None:
    """The only one `made`, where the loader's line calls neither it nor DataLoader by a name."""
    place = program.places.loader
    script = program.scripts.get(place.path) if place else None
    if place is None or script is None or len(made) != 1:
        return None
    (one,) = made
    here = [call for call in script.calls if covers(call, place.line)]
    return None if any(_is_loader(script, call.func) for call in here) else one


def _followed(program: Program, call: Call) -> Partial:
    names, handed = set[str](), set[ast.expr]({call.node})
    given = list(_given(program))
    while True:
        pairs = [each for each in given if each[1] is call.node or last_name(each[1]) in names]
        handed |= {value for _, value in pairs}
        more = {name for name, _ in pairs} - names
        if not more:
            return Partial(call=call, names=frozenset(names), handed=frozenset(handed))
        names |= more


def _given(program: Program) -> Iterator[tuple[str, ast.expr]]:
    """The names that are given values in the program, each with the value."""
    nodes = [at for _, at in program.nodes()]
    taken = [each for script in program.scripts.values() for each in _taken_in(script)]
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((last_name(at), value) for at in targets if last_name(at))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield last_name(target), value
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from defaults_of(node).items()
            case ast.Call(func=function):
                for names in (names for name, names in taken if name == last_name(function)):
                    yield from _arguments(node, names)


def _taken_in(script: Script) -> Iterator[tuple[str, list[str]]]:
    """What each function and class of `script` takes, in order."""
    for at in script.nodes:
        holder = next(script.ancestors(at), None)
        if isinstance(at, Function):
            placed = [each.arg for each in (*at.args.posonlyargs, *at.args.args)]
            named, name = [each.arg for each in at.args.kwonlyargs], at.name
            if isinstance(holder, ast.ClassDef):
                placed = placed[is_bound(script, at) :]
                name = holder.name if name == "__init__" else name
            yield name, [*placed, *named]
        elif isinstance(at, ast.ClassDef):  # a dataclass
            fields = [each for each in at.body if isinstance(each, ast.AnnAssign)]
            yield at.name, [last_name(each.target) for each in fields]


def _arguments(call: ast.Call, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """What `call` gives to what it calls, which takes these `names`."""
    if not any(isinstance(at, ast.Starred) for at in call.args):
        yield from zip(names, call.args, strict=False)
    for keyword in call.keywords:
        if keyword.arg in names:
            yield str(keyword.arg), keyword.value
