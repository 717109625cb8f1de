"""What a training loop does by way of the program's own functions that it comes to call."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from autotune.source.averages import averages, moves_weights
from autotune.source.condition import given_code
from autotune.source.loss import BACKWARDS
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.scaler import CLIPS
from autotune.source.script import Function, Script, is_method, last_name

# What a model has, whatever else in the program goes by that name.
_OF_MODELS = frozenset({"train", "eval"})
# The last part of what is called so is stepped for training.
_STEPPED = ("opt", "sched", "scaler", "warmup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A function of the program that the loop comes to call, in its file."""

    script: Script
    node: Function


def called_in(
    program: Program, script: Script, loop: ast.For, statements: Iterable[ast.AST], *names: str
) -> list[Called]:
    """The functions that `statements` of `loop`, in `script`, come to call, and those with `names`,
    told by names; what objects are made by is none, nor is what `loop` lies in.
    """
    around = set(script.ancestors(loop))
    scripts = program.scripts.values()
    defined = [
        Called(script=each, node=at)
        for each in scripts
        for at in ast.walk(each.tree)
        if isinstance(at, Function) and at.name != "__init__" and at not in around
    ]
    kinds = {pair for each in scripts for pair in _made(each)}
    own = {part for path in program.scripts for part in PurePath(path).with_suffix("").parts}
    known = set(names).union(*(_names_called(script, at, own) for at in statements))
    found: dict[Called, None] = {}
    while True:
        called = {kind for name, kind in kinds if name in known}
        more = [at for at in defined if at not in found and _is_among(at, known, called)]
        if not more:
            return list(found)
        found |= dict.fromkeys(more)
        known |= set[str]().union(*(_names_called(at.script, at.node, own) for at in more))


def _made(script: Script) -> Iterator[tuple[str, str]]:
    """The names of variables and attributes, each with the class that an object is made of."""
    for at in ast.walk(script.tree):
        if isinstance(at, ast.Assign) and isinstance(at.value, ast.Call):
            yield from ((last_name(place), last_name(at.value.func)) for place in at.targets)


def _is_among(function: Called, names: set[str], kinds: set[str]) -> bool:
    """Whether `function` has one of the `names`, or runs where objects of these `kinds` do."""
    if function.node.name != "__call__":
        return function.node.name in names
    holder = next(function.script.ancestors(function.node))
    return isinstance(holder, ast.ClassDef) and holder.name in kinds


def _names_called(script: Script, node: ast.AST, own: set[str]) -> set[str]:
    """The names that `node` calls, but for those of libraries; the program's own modules go by the
    parts of names in `own`.
    """
    found = set()
    for call in calls_in(node):
        root: ast.expr = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        imported = script.imports.get(last_name(root), ".")
        if imported.startswith(".") or not own.isdisjoint(imported.split(".")):
            found.add(last_name(call.func))
    return found - _OF_MODELS


def stored_by(functions: Iterable[Called]) -> frozenset[str]:
    """The names of attributes, entries and shared variables that `functions` give a value."""
    found: set[str] = set()
    for function in functions:
        given = given_code([function.node])
        found |= {code.rpartition(".")[2] for code in given if "." in code}
        found |= shared_names(function.node) & given
        entries = (at for at in ast.walk(function.node) if isinstance(at, ast.Subscript))
        stored = (at.slice for at in entries if isinstance(at.ctx, ast.Store))
        found |= {str(key.value) for key in stored if isinstance(key, ast.Constant)}
    return frozenset(found)


def shared_names(function: Function) -> set[str]:
    """The variables of `function` that are also others'."""
    shared = (at for at in ast.walk(function) if isinstance(at, ast.Global | ast.Nonlocal))
    return {name for at in shared for name in at.names}


def unusual_calls(functions: Iterable[Called], *, after: bool) -> Iterator[str]:
    """Why a step cannot be put off where the loop calls these, perhaps `after` backward."""
    for function in functions:
        node = function.node
        for does in _does(node, after=after):
            yield f"{node.name}(), which the loop comes to call, {does}"


def _does(function: Function, *, after: bool) -> Iterator[str]:
    calls = list(calls_in(function))
    of_autograd = [call.func for call in calls if is_method(call, "grad")]
    attributes = [
        at.attr
        for at in ast.walk(function)
        if isinstance(at, ast.Attribute) and at not in of_autograd
    ]
    if "grad" in attributes:
        yield "touches gradients"
    if "param_groups" in attributes and _sets_groups(function):
        yield "sets learning rates"
    if any(map(_is_of_step, calls)):
        yield "clips or clears gradients, or steps something"
    if any(map(moves_weights, function.body)):
        yield "changes weights itself"
    if any(averages(call, after=after) for call in calls):
        yield "keeps an average of the weights"


def _is_of_step(call: ast.Call) -> bool:
    """Whether `call` is a part of training that the loop's own step has."""
    if not is_method(call, "step"):
        return last_name(call.func) in ("zero_grad", "unscale_", *CLIPS, *BACKWARDS)
    assert isinstance(call.func, ast.Attribute)
    owner = last_name(call.func.value)
    bare = not call.args and not call.keywords and owner != "self"
    return bare or any(word in owner.lower() for word in _STEPPED)


def _sets_groups(function: Function) -> bool:
    """Whether `function`, which has an optimizer's groups, sets entries of something; of what is
    read from the groups it may.
    """
    reading = {
        place
        for at in ast.walk(function)
        if isinstance(at, ast.Assign) and "param_groups" in ast.unparse(at.value)
        for place in at.targets
    }
    return any(
        isinstance(at, ast.Subscript) and isinstance(at.ctx, ast.Store) and at not in reading
        for at in ast.walk(function)
    )
