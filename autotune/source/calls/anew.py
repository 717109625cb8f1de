"""Statements that build a loader anew: one says again, in the same function, what another says.

loader = DataLoader(dataset, batch_size=8)
while True:
    for batch in loader:
        yield batch
    loader = DataLoader(dataset, batch_size=8)
"""

import ast
import functools
from dataclasses import replace

from autotune.source.edits import Place
from autotune.source.places import Call
from autotune.source.script import Script, covers

_NAMED = ast.Name | ast.Attribute


def calls_anew(call: Call) -> list[Call]:
    """`call` and those like it whose statements do what that of `call` does, in order."""
    nodes = list(ast.walk(call.statement))
    index = nodes.index(call.node)
    alike = _alike(call.script, call.statement)
    calls = (list(ast.walk(at))[index] for at in alike)
    return [replace(call, node=node) for node in calls if isinstance(node, ast.Call)]


@functools.lru_cache(maxsize=256)
def first_of(place: Place) -> Place:
    """`place`, or the first of those where the same is built: as if all were built there."""
    try:
        with open(place.path, encoding="utf-8") as file:
            script = Script(place.path, file.read())
    except (OSError, SyntaxError, UnicodeError):  # no file of Python's: a notebook, a string
        return place
    for statement in script.nodes:
        if isinstance(statement, ast.Assign) and covers(statement, place.line):
            alike = _alike(script, statement)
            return place if len(alike) == 1 else _same_call(statement, alike[0], place)
    return place


def _same_call(statement: ast.stmt, first: ast.stmt, place: Place) -> Place:
    """Where `first` calls what `statement` calls at `place`."""
    pairs = zip(ast.walk(statement), ast.walk(first), strict=True)
    called = [
        like
        for node, like in pairs
        if isinstance(node, ast.Call) and isinstance(like, ast.Call) and covers(node, place.line)
    ]
    return replace(place, line=called[-1].lineno, column=called[-1].col_offset) if called else place


def _alike(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    """The assignments of the same function that say what `statement` says, itself among them."""
    if not isinstance(statement, ast.Assign):
        return [statement]
    function = script.function(statement)
    own = [at for at in ast.walk(function or script.tree) if script.function(at) is function]
    meant = script.meaning(statement)
    said = [at for at in own if isinstance(at, ast.Assign) and script.meaning(at) == meant]
    first = min(said, key=lambda at: at.lineno)
    if len(said) == 1 or _leaves(script, first) or _given_later(own, first):
        return [statement]
    again = [at for at in said if at is first or not _excludes(script, first, at)]
    return sorted(again, key=lambda at: at.lineno) if statement in again else [statement]


def _leaves(script: Script, statement: ast.stmt) -> bool:
    """Whether the function ends with what `statement` belongs to: a branch that returns."""
    inner = script.statements_to(statement)[:-1]
    return any(isinstance(script.block(at)[-1], ast.Return | ast.Raise) for at in inner)


def _given_later(own: list[ast.AST], first: ast.Assign) -> bool:
    """Whether what `first` reads is given another value later on."""
    read = {ast.unparse(at) for at in ast.walk(first) if isinstance(at, _NAMED) and _loads(at)}
    return any(
        ast.unparse(at) in read
        for at in own
        if isinstance(at, _NAMED) and not _loads(at) and at.lineno > first.lineno
    )


def _loads(named: ast.Name | ast.Attribute) -> bool:
    return isinstance(named.ctx, ast.Load)


def _excludes(script: Script, first: ast.stmt, other: ast.stmt) -> bool:
    """Whether one of them runs at the most: they are in branches of the same `if`."""
    holders = script.statements_to(first)
    for at in script.statements_to(other):
        above = next(script.ancestors(at))
        if isinstance(above, ast.If) and above in holders:
            return not any(each in script.block(at) for each in holders)
    return False
