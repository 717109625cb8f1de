"""Where a training that goes on thaws weights: its later epochs compute more than those before."""

import ast

from autotune.source.loops.around_training import loops_of_training, running
from autotune.source.program import Program


def thawed_later(program: Program) -> str:
    """File and line of what gives weights gradients in a loop over epochs of `program`, but not in
    the one over batches; "" where there is none, and of a GAN (several backward passes a step),
    which turns its models on and off in turn.
    """
    if len(program.places.backwards) > 1:
        return ""
    inner, outer = loops_of_training(program)
    between = running(program, outer) - running(program, inner)
    places = (
        (script.path, node.lineno)
        for script in program.scripts.values()
        for node in ast.walk(script.tree)
        if isinstance(node, ast.expr | ast.stmt) and node in between and _thaws(node)
    )
    return next((f"{path}:{line}" for path, line in places), "")


def _thaws(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return not _is_false(value)
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=given, keywords=named):
            return not any(_is_false(at) for at in (*given, *(each.value for each in named)))
    return False


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False
