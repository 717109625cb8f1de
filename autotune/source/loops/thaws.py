"""Where a training that goes on thaws weights, or puts others in their place: what comes later
computes more than what came before, or less.
"""

import ast

from autotune.source.loops.around_training import loops_of_training, running, running_within
from autotune.source.program import Program
from autotune.source.script import Function, Script, last_name

# torch.nn.Parameter, and what torch.nn.utils.prune has for single weights and for all of them.
_REPLACE = (
    "Parameter",
    *("random_unstructured", "l1_unstructured", "random_structured", "ln_structured"),
    "global_unstructured",
)
# What is called of a model, and of no tensor.
_OF_MODELS = frozenset(
    ("parameters", "named_parameters", "train", "eval", "state_dict", "load_state_dict", "children")
)
# Where a model is made, or its weights are begun anew.
_MAKING = frozenset(("__init__", "reset_parameters", "forward", "__setstate__"))


def thawed_later(program: Program) -> str:
    """File and line of what gives weights gradients in a loop over epochs of `program`, but not in
    the one over batches; "" where there is none, and of a GAN (several backward passes a step),
    which turns its models on and off in turn.
    """
    if len(program.places.backwards) > 1:
        return ""
    inner, outer = loops_of_training(program)
    between = running_within(program, outer) - running(program, inner)
    places = (
        (script.path, node.lineno)
        for script in program.scripts.values()
        for node in script.nodes
        if isinstance(node, ast.expr | ast.stmt) and node in between and _thaws(script, node)
    )
    return next((f"{path}:{line}" for path, line in places), "")


def replaced_later(program: Program) -> str:
    """File and line of what puts other weights in the place of a model's own while `program`
    trains, as cutting and growing them does; "" where there is none. What is made with a model is
    its own.
    """
    inner, outer = loops_of_training(program)
    ran = running_within(program, [*inner, *outer])
    found = [
        (script, node)
        for script in program.scripts.values()
        for node in script.calls
        if node in ran and last_name(node.func) in _REPLACE
    ]
    making = _making(program) if found else set()
    places = (
        f"{script.path}:{node.lineno}"
        for script, node in found
        if making.isdisjoint(_functions_round(script, node))
    )
    return next(places, "")


def _making(program: Program) -> set[str]:
    """The functions in which models are made: those of `_MAKING`, and what these alone call."""
    calls: dict[str, list[set[str]]] = {}
    for script in program.scripts.values():
        for call in script.calls:
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


def _thaws(script: Script, node: ast.AST) -> bool:
    """Whether `node` gives weights gradients, for good: not what a model is given, nor to take back
    in the same function that they had none.
    """
    match node:
        case ast.Assign(targets=[ast.Attribute(value=of, attr="requires_grad")], value=value):
            given = [value]
        case ast.Call(func=ast.Attribute(value=of, attr="requires_grad_"), args=given):
            given = [*given, *(each.value for each in node.keywords)]
        case _:
            return False
    return not any(map(_is_false, given)) and _are_weights(script, of)


def _are_weights(script: Script, of: ast.expr) -> bool:
    """Whether `of` is one of many in a loop that has not frozen them before in the same function,
    or what is a model by what else is called of it.
    """
    code = ast.unparse(of)
    for loop in script.ancestors(of):
        if isinstance(loop, ast.For) and code in map(ast.unparse, ast.walk(loop.target)):
            return not _frozen_before(script, loop)
    models = {
        ast.unparse(call.func.value)
        for call in script.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_MODELS
    }
    return any(code == model or code.startswith(f"{model}.") for model in models)


def _frozen_before(script: Script, loop: ast.For) -> bool:
    """Whether the function of `loop` goes over the same before it, to freeze it."""
    over = ast.unparse(loop.iter)
    return any(
        isinstance(at, ast.For)
        and at.lineno < loop.lineno
        and ast.unparse(at.iter) == over
        and any(_freezes(each) for each in ast.walk(at))
        for at in ast.walk(script.function(loop) or script.tree)
    )


def _freezes(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return _is_false(value)
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[value]):
            return _is_false(value)
    return False


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False
