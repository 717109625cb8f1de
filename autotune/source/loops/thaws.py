"""Where a training thaws weights later, or puts others in their place: steps compute otherwise."""

import ast
from collections.abc import Set

from autotune.source.calls.writes import assigned
from autotune.source.loops.around_training import (
    loops_of_training,
    running,
    running_in_training,
    running_within,
)
from autotune.source.named import calls_named
from autotune.source.program import Program, first_of
from autotune.source.reach import argument, calls_in, defaults_of, is_bound
from autotune.source.script import (
    Function,
    Script,
    given_to,
    is_guard,
    last_name,
    names_in,
    straight,
)

# torch.nn.Parameter, and what torch.nn.utils.prune has for single weights and for all of them.
_REPLACE = (
    "Parameter",
    *("random_unstructured", "l1_unstructured", "random_structured", "ln_structured"),
    "global_unstructured",
)
# What puts a weight into a model.
_PUTTING = frozenset(("setattr", "register_parameter", "__setattr__", "append"))
# What is called of a model, and of no tensor.
_OF_MODELS = frozenset(
    ("parameters", "named_parameters", "train", "eval", "state_dict", "load_state_dict", "children")
)
# Where a model is made, or its weights are begun anew.
_MAKING = frozenset(("__init__", "reset_parameters", "forward", "__setstate__"))


def thawed_later(program: Program) -> str:
    """Where a loop over epochs, not over batches, gives weights gradients; nowhere in a GAN."""
    if len(program.places.backwards) > 1:
        return ""
    inner, outer = loops_of_training(program)
    between = running_within(program, outer) - running(program, inner)
    return first_of(
        (script, node)
        for script, node in program.nodes()
        if node in between and _thaws(program, script, node, between)
    )


def replaced_later(program: Program) -> str:
    """Where other weights are put into a model as it trains, by cutting or growing it."""
    ran = running_in_training(program)
    found = [
        (script, node)
        for script, node in program.calls()
        if node in ran and last_name(node.func) in _REPLACE
    ]
    making = _making(program) if found else set()
    return first_of(
        (script, node)
        for script, node in found
        if making.isdisjoint(_functions_round(script, node)) and not _is_apart(script, node)
    )


def _is_apart(script: Script, made: ast.Call) -> bool:
    """Whether `made` is a variable of its function alone, put into no object: no model's weight."""
    match script.statement(made):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
            value is made and last_name(made.func) == "Parameter"
        ):
            pass
        case _:
            return False
    for at in ast.walk(script.function(made) or script.tree):
        match at:
            case ast.Assign(value=value) if name in names_in(value):
                if not all(isinstance(each, ast.Name) for each in assigned(at)):
                    return False
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                if any(isinstance(each, ast.Name) and each.id == name for each in parts):
                    return False
            case ast.Call(func=by, args=args, keywords=named) if last_name(by) in _PUTTING:
                if any(name in names_in(each) for each in (*args, *named)):
                    return False
    return True


def _making(program: Program) -> set[str]:
    """The functions in which models are made: those of `_MAKING`, and what these alone call."""
    calls: dict[str, list[set[str]]] = {}
    for script, call in program.calls():
        calls.setdefault(last_name(call.func), []).append(_functions_round(script, call))
    making = set(_MAKING)
    while (
        more := {name for name, callers in calls.items() if all(making & each for each in callers)}
        - making
    ):
        making |= more
    return making


def _functions_round(script: Script, node: ast.AST) -> set[str]:
    return {at.name for at in script.ancestors(node) if isinstance(at, Function)}


def _thaws(program: Program, script: Script, node: ast.AST, between: Set[ast.AST]) -> bool:
    """Whether `node` gives weights gradients for good, and not what it has just taken them from."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=of, attr="requires_grad")], value=value):
            given = [value]
        case ast.Call(func=ast.Attribute(value=of, attr="requires_grad_")):
            given = given_to(node)
        case _:
            return False
    if any(_is_false(program, script, value, between) for value in given):
        return False
    if not _are_weights(script, of):
        return False
    always = all(isinstance(value, ast.Constant) for value in given)
    return not _frozen_before(
        script, of, wider=always and _is_unconditional(program, script, node, set())
    )


def _are_weights(script: Script, of: ast.expr) -> bool:
    """Whether `of` is one of many in a loop that calls no model with it, or a model by its use."""
    code = ast.unparse(of)
    models = {
        ast.unparse(call.func.value)
        for call in script.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_MODELS
    }
    if (loop := _loop_over(script, of)) is not None:
        called = (call for call in calls_in(loop) if ast.unparse(call.func) in models)
        return not any(code in map(ast.unparse, call.args) for call in called)
    return any(code == model or code.startswith(f"{model}.") for model in models)


def _loop_over(script: Script, of: ast.expr) -> ast.For | None:
    """The loop in which `of` is one of many."""
    code = ast.unparse(of)
    loops = (at for at in script.ancestors(of) if isinstance(at, ast.For))
    return next((at for at in loops if code in map(ast.unparse, ast.walk(at.target))), None)


def _frozen_before(script: Script, of: ast.expr, *, wider: bool) -> bool:
    """Whether the block takes gradients first from `of`, or (`wider`) from what holds it."""
    loop = _loop_over(script, of)
    statement = loop or script.statement(of)
    block = script.block(statement)
    thawed = _whole(loop.iter if loop else of)
    wider = wider and "[" not in thawed
    frozen = set[str]().union(*map(_frozen_by, straight(block[: block.index(statement)])))
    return any(thawed == code or (wider and thawed.startswith(f"{code}.")) for code in frozen)


def _frozen_by(statement: ast.stmt) -> set[str]:
    """The code of what `statement` takes all gradients from."""
    match statement:
        case ast.For(iter=over) if any(_frozen(at) is not None for at in ast.walk(statement)):
            return {_whole(over)}
        case ast.Expr(value=ast.Call() as call) if (model := _frozen(call)) is not None:
            return {_whole(model)}
    return set()


def _whole(weights: ast.expr) -> str:
    """The code of the model that has `weights` (`model.parameters()`), or else their own."""
    match weights:
        case ast.Call(func=ast.Attribute(value=model, attr="parameters" | "named_parameters")):
            return ast.unparse(model)
    return ast.unparse(weights)


def _frozen(node: ast.AST) -> ast.expr | None:
    """What `node` takes the gradients from, by saying so."""
    match node:
        case ast.Assign(
            targets=[ast.Attribute(value=of, attr="requires_grad")],
            value=ast.Constant(value=False),
        ):
            return of
        case ast.Call(
            func=ast.Attribute(value=of, attr="requires_grad_"), args=[ast.Constant(value=False)]
        ):
            return of
    return None


def _is_unconditional(program: Program, script: Script, node: ast.AST, known: set[str]) -> bool:
    """Whether no condition decides on `node`, nor on calls of its functions, but the `known`."""
    conditions = (at for at in script.statements_to(node) if isinstance(at, ast.If))
    if not all(map(is_guard, conditions)):
        return False
    function = script.function(node)
    if function is None or function.name in known:
        return True
    known.add(function.name)
    return all(
        _is_unconditional(program, other, call, known)
        for other, call in calls_named(program, function.name)
    )


def _is_false(program: Program, script: Script, value: ast.expr, between: Set[ast.AST]) -> bool:
    """Whether `value` is False, or what all calls `between` epochs give for a parameter that is."""
    function = script.function(value)
    if not isinstance(value, ast.Name) or function is None:
        return isinstance(value, ast.Constant) and value.value is False
    bound, default = is_bound(script, function), defaults_of(function).get(value.id)
    given = [
        argument(call, function, value.id, bound=bound) or default
        for _, call in calls_named(program, function.name)
        if call in between
    ]
    return bool(given) and all(isinstance(at, ast.Constant) and at.value is False for at in given)
