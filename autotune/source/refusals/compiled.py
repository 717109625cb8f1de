"""Where a compiled model leaves out hooks, caches or roundings that the program relies on."""

import ast
from collections.abc import Iterator, Set

from autotune.source.loops.around_training import loops_of_training, running
from autotune.source.named import calls_named
from autotune.source.program import Program
from autotune.source.reach import calls_in, decorators
from autotune.source.refusals.kept_inside import FORWARD
from autotune.source.script import Function, Script, last_name, straight

_HOOKS = frozenset(
    f"register_{name}_hook" for name in ("forward", "forward_pre", "full_backward", "backward")
)
_CACHES = frozenset({"cache", "lru_cache", "cached_property"})
_PROPERTIES = frozenset({"property", "cached_property"})
_PASSES = frozenset((FORWARD, "backward"))  # the latter of an autograd.Function
_SHORT = frozenset(("half", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"))
_OF_ANOTHER = "dtype"  # as in `x.to(y.dtype)`
_LONG = frozenset(("float", "double", "float32", "float64", _OF_ANOTHER))
_DRAWS = frozenset(
    (
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli"),
        *("multinomial", "normal", "uniform", "choice", "permutation", "shuffle", "sample"),
        *("random", "integers"),
    )
)


def why_not_compiled(program: Program) -> str:
    """Which of these it is, and where; "" where none is seen."""
    if at := next(_hooked_later(program), ""):
        return (
            f"hooks are registered at {at}, in what the training's loops run, and a model that was "
            "compiled before may pass over them"
        )
    ran = running(program, _compiled(program), strictly=True)
    if at := next(_kept_by_chance(program, ran), ""):
        return (
            f"the function at {at} has a cache and may draw random numbers: a compiled model may "
            "pass over the cache, and draw them anew in each call"
        )
    if at := next(_rounded(program, ran), ""):
        return (
            f"numbers may be rounded at {at} by a cast to a shorter format and back, and a "
            "compiled model may leave that out"
        )
    return ""


def _hooked_later(program: Program) -> Iterator[str]:
    """Calls that register hooks on modules in what the loops of the training run."""
    inner, outer = loops_of_training(program)
    loops: list[ast.AST] = [
        loop for loop in (*inner, *outer) if isinstance(loop, ast.For | ast.While)
    ]
    ran = running(program, loops, strictly=True)
    for script, call in program.calls():
        if last_name(call.func) in _HOOKS and call in ran:
            yield script.at(call)


def _compiled(program: Program) -> list[ast.AST]:
    """What is compiled of models: their passes, hooks, and properties, which are not called."""
    found = list[ast.AST]()
    for _, kind in program.classes():
        methods = [at for at in kind.body if isinstance(at, Function)]
        if any(method.name == FORWARD for method in methods):
            found += (at for at in methods if at.name in _PASSES or decorators(at) & _PROPERTIES)
    for _, call in (each for name in _HOOKS for each in calls_named(program, name)):
        found += (ast.Call(func=hook, args=[], keywords=[]) for hook in call.args)
    return found


def _kept_by_chance(program: Program, ran: Set[ast.AST]) -> Iterator[str]:
    """Functions with a cache that draw random numbers, of those that are `ran`."""
    for script, function in program.functions():
        cached = function in ran and decorators(function) & _CACHES
        if cached and any(last_name(call.func) in _DRAWS for call in calls_in(function)):
            yield script.at(function)


def _rounded(program: Program, ran: Set[ast.AST]) -> Iterator[str]:
    """Casts back of what was cast to a shorter format: `x.half().float()`, or by a name."""
    for script in program.scripts.values():
        if not any(each in script.text for each in _SHORT):
            continue
        for call in (call for call in script.calls if call in ran):
            value = _cast(call, _LONG)
            if value is not None and _is_short(script, value):
                yield script.at(call)


def _cast(node: ast.AST, formats: frozenset[str]) -> ast.expr | None:
    """What `node` casts to one of these `formats`; None where it casts nothing."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=value), args=[]) if name in formats:
            return value
        case ast.Call(func=ast.Attribute(attr="type_as", value=value)) if _OF_ANOTHER in formats:
            return value
        case ast.Call(func=ast.Attribute(attr="to" | "type", value=value), args=given, keywords=by):
            wanted = (*given, *(each.value for each in by if each.arg == "dtype"))
            return value if any(last_name(each) in formats for each in wanted) else None
    return None


def _is_short(script: Script, value: ast.expr) -> bool:
    """Whether `value` was cast to a shorter format right there, or where its name was set."""
    if not isinstance(value, ast.Name):
        return _cast(value, _SHORT) is not None
    around = script.function(value) or script.tree
    given = [
        at
        for at in ast.walk(around)
        if isinstance(at, ast.Assign) and script.end(at) < script.start(value)
        if any(isinstance(each, ast.Name) and each.id == value.id for each in at.targets)
    ]
    always = set(straight(around.body))
    last = max((script.start(at) for at in given if at in always), default=0)
    return any(_cast(at.value, _SHORT) is not None for at in given if script.start(at) >= last)
