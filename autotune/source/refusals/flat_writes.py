"""Where a program writes into what flattens a tensor: a copy, if that lies in another order."""

import ast
from collections.abc import Iterator

from autotune.source.calls.writes import whole_of, written_into
from autotune.source.program import Program, first_of
from autotune.source.reach import functions_named
from autotune.source.refusals.rewritten_files import making
from autotune.source.script import Function, Script, last_name

_TOLD = frozenset(("print", "len", "float", "int", "str", "info", "debug"))
# Functions that make something new of what they are given, mostly to measure or to choose by it.
_READING = frozenset(
    ("norm", "vector_norm", "topk", "kthvalue", "quantile", "sort", "argsort", "median")
)
_FLATTENING = frozenset(("reshape", "flatten", "ravel", "contiguous"))


def written_flat(program: Program) -> str:
    """Where a flattened tensor is written into, itself, by a name or a function; no sample's."""
    found = [
        (script, node)
        for script in program.scripts.values()
        for node in (script.nodes if any(each in script.text for each in _FLATTENING) else ())
        if any(_is_flat(script, node, target) for target in _targets(node))
        or (isinstance(node, ast.Call) and _is_given_flat(program, node))
    ]
    makers = making(program) if found else set[Function]()
    sampled = {at for each in makers for at in ast.walk(each)}
    return first_of(each for each in found if each[1] not in sampled)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What `node` writes into, as it is written there; of methods by those of tensors alone."""
    match node:
        case ast.Assign(targets=targets):
            yield from (each.value for each in targets if isinstance(each, ast.Subscript))
        case ast.AugAssign(target=ast.Subscript(value=whole)):
            yield whole
        case ast.AugAssign(target=ast.Name() as whole):
            yield whole
        case ast.Call(func=ast.Attribute(value=whole, attr=name)) if name.endswith("_"):
            yield from [whole] if any(written_into(node)) else []


def _is_flat(script: Script, node: ast.AST, target: ast.expr) -> bool:
    if not isinstance(target, ast.Name):
        used = isinstance(node, ast.Call) and not isinstance(next(script.ancestors(node)), ast.Expr)
        return not used and any(map(_flattens, _chain(target)))
    return _is_only_written(script.function(node) or script.tree, target.id)


def _is_given_flat(program: Program, call: ast.Call) -> bool:
    """Whether it hands what was flattened to a function of the program that writes into that."""
    flat = [place for place, each in enumerate(call.args) if any(map(_flattens, _chain(each)))]
    return any(
        _writes_into(function, place)
        for _, function in functions_named(program, last_name(call.func))
        for place in flat
    )


def _writes_into(function: Function, place: int) -> bool:
    """Whether `function` writes into its argument at this `place`, `self` not counted."""
    names = [each.arg for each in function.args.args]
    names = names[1:] if names[:1] == ["self"] else names
    written = (whole_of(each) for at in ast.walk(function) for each in _targets(at))
    return any(isinstance(at, ast.Name) and at.id in names[place : place + 1] for at in written)


def _is_only_written(function: Function | ast.Module, name: str) -> bool:
    """Whether the variable `name` is a tensor that was flattened, and nobody is given it."""
    values = [
        at.value
        for at in ast.walk(function)
        if isinstance(at, ast.Assign) and name in map(last_name, at.targets)
    ]
    if not values or not all(map(_flattens, values)):
        return False
    given = (each for at in ast.walk(function) for each in _given(at, name))
    return not any(isinstance(each, ast.Name) and each.id == name for each in map(whole_of, given))


def _given(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """What `node` hands on to others than the variable `name`, which have its memory then."""
    match node:
        case ast.Call(func=function) if last_name(function) in _TOLD | _READING:
            return
        case ast.Call(args=args, keywords=named):
            yield from (*args, *(each.value for each in named))
        case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
            yield from value.elts if isinstance(value, ast.Tuple) else [value]
        case ast.Assign(targets=targets, value=value) if name not in map(last_name, targets):
            yield value


def _chain(value: ast.expr) -> Iterator[ast.expr]:
    """`w.reshape(-1)[:3]`, and what stands before each dot and bracket of it."""
    yield value
    match value:
        case ast.Call(func=ast.Attribute(value=before)):
            yield from _chain(before)
        case ast.Subscript(value=before) | ast.Attribute(value=before):
            yield from _chain(before)


def _flattens(value: ast.expr) -> bool:
    """Whether it is a tensor that is there already, flattened: none that was made just now."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _FLATTENING:
            return not isinstance(whole_of(owner), ast.Call)
    return False
