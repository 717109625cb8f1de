"""What a training loop does by way of the program's own functions that it comes to call."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autotune.source.loops.condition import given_code
from autotune.source.loops.kinds import Kinds
from autotune.source.loops.loss import BACKWARDS, CLIPS
from autotune.source.loops.weights import averages, moves_weights, touches_groups
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Function, Script, is_method, last_name, shared_names

# What a model has, whatever else in the program goes by that name.
_OF_MODELS = frozenset({"train", "eval"})
# The last part of what is called so is stepped for training.
_STEPPED = ("opt", "sched", "scaler", "warmup")


# What is called, with the class whose method it is, None where that is not known.
_Name = tuple[str, ast.ClassDef | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A function of the program that the loop comes to call, in its file."""

    script: Script
    node: Function


def called_in(
    program: Program, script: Script, loop: ast.For, statements: Iterable[ast.AST], *names: str
) -> list[Called]:
    """The functions that `statements` of `loop`, in `script`, lead to, and those with `names`, told
    by name, and by an object's class where that is seen; no `__init__`, nor what `loop` lies in.
    """
    around, kinds = set(script.ancestors(loop)), Kinds(program)
    scripts = program.scripts.values()
    defined = [
        Called(script=each, node=at)
        for each in scripts
        for at in each.nodes
        if isinstance(at, Function) and at.name != "__init__" and at not in around
    ]
    made = {pair for each in scripts for pair in _made(each)}
    known: set[_Name] = {(name, None) for name in names}
    known = known.union(*(_names_called(kinds, script, at) for at in statements))
    found: dict[Called, None] = {}
    while True:
        bare = {name for name, _ in known}
        called = {kind for name, kind in made if name in bare}
        more = [at for at in defined if at not in found and _is_among(at, known, called)]
        if not more:
            return list(found)
        found |= dict.fromkeys(more)
        known = known.union(*(_names_called(kinds, at.script, at.node) for at in more))


def _made(script: Script) -> Iterator[tuple[str, str]]:
    """The names of variables and attributes, each with the class that an object is made of."""
    for at in script.nodes:
        if isinstance(at, ast.Assign) and isinstance(at.value, ast.Call):
            yield from ((last_name(place), last_name(at.value.func)) for place in at.targets)


def _is_among(function: Called, names: set[_Name], kinds: set[str]) -> bool:
    """Whether `function` has one of the `names`, or runs where objects of these `kinds` do."""
    holder = next(function.script.ancestors(function.node))
    if function.node.name == "__call__":
        return isinstance(holder, ast.ClassDef) and holder.name in kinds
    kind = holder if isinstance(holder, ast.ClassDef) else None
    return not names.isdisjoint({(function.node.name, None), (function.node.name, kind)})


def _names_called(kinds: Kinds, script: Script, node: ast.AST) -> set[_Name]:
    """The names that `node` calls, but for those of libraries."""
    found: set[_Name] = set()
    for call in calls_in(node):
        name = last_name(call.func)
        if name in _OF_MODELS or kinds.is_imported(script, call.func):
            continue
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        of = kinds.of(script, owner, name) if owner is not None else None
        found |= {(name, None)} if of is None else {(name, kind) for kind in of}
    return found


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


def unusual_calls(functions: Iterable[Called], *, after: bool) -> Iterator[str]:
    """Why a step cannot be put off where the loop calls these, perhaps `after` backward."""
    for function in functions:
        node = function.node
        for does in _does(function.script, node, after=after):
            yield f"{node.name}(), which the loop may come to call, {does}"


def _does(script: Script, function: Function, *, after: bool) -> Iterator[str]:
    calls = list(calls_in(function))
    of_autograd = [call.func for call in calls if is_method(call, "grad")]
    attributes = [
        at.attr
        for at in ast.walk(function)
        if isinstance(at, ast.Attribute) and at not in of_autograd
    ]
    if "grad" in attributes:
        yield "touches gradients"
    if touches_groups(script, ast.walk(function)):
        yield "touches an optimizer's param_groups"
    if any(map(_is_of_step, calls)):
        yield "runs backward, clips or clears gradients, or steps something"
    if any(moves_weights(at, function.body) for at in function.body):
        yield "goes over weights and changes something in place"
    if any(averages(call, after=after) for call in calls):
        yield "calls what by its name keeps an average of the weights, or moves some"


def _is_of_step(call: ast.Call) -> bool:
    """Whether `call` is a part of training that the loop's own step has."""
    if not is_method(call, "step"):
        return last_name(call.func) in ("zero_grad", "unscale_", *CLIPS, *BACKWARDS)
    assert isinstance(call.func, ast.Attribute)
    owner = last_name(call.func.value)
    bare = not call.args and not call.keywords and owner != "self"
    return bare or any(word in owner.lower() for word in _STEPPED)
