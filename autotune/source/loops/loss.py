"""What the loss is computed from, as far as the source shows: is it a mean over its samples?"""

import ast

from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import reached, running_parts
from autotune.source.script import is_method

BACKWARDS = ("backward", "manual_backward")
# What torch.nn.utils has for clipping.
# fmt: off
CLIPS = (
    "clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_",
    "get_total_norm",
)
# fmt: on
# Methods that put what they are given into a container.
GATHERING = ("append", "extend", "insert", "add", "update", "setdefault")


def loss_names(backward: Call) -> set[str]:
    """The variables in the expression that `backward` is called on."""
    return names_in(receiver_of(backward))


def receiver_of(call: Call) -> ast.expr:
    """The `loss` of `loss.backward()`."""
    function = call.node.func
    assert isinstance(function, ast.Attribute)
    return function.value


def stored_names(statement: ast.AST) -> set[str]:
    """The variables that `statement` gives a value."""
    names = (at for at in ast.walk(statement) if isinstance(at, ast.Name))
    return {at.id for at in names if isinstance(at.ctx, ast.Store)}


def given_names(statement: ast.stmt) -> set[str]:
    """The variables that `statement` itself gives a value, or adds to (`group.append(...)`,
    `groups[0].append(...)`).
    """
    match statement:
        case ast.For(target=target):
            return names_in(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method))):
            while isinstance(owner, ast.Subscript):
                owner = owner.value
            gathers = method in GATHERING and isinstance(owner, ast.Name)
            return names_in(owner) if gathers else set()
        case ast.Assign() | ast.AugAssign():
            changed = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            subscripts = [at.value for at in changed if isinstance(at, ast.Subscript)]
            return stored_names(statement).union(*map(names_in, subscripts))
    return stored_names(statement)


def names_in(node: ast.AST) -> set[str]:
    """The variables that `node` has."""
    return {at.id for at in ast.walk(node) if isinstance(at, ast.Name)}


def is_summed(program: Program, body: list[ast.stmt], backward: Call) -> bool:
    """Whether something that the loss comes from adds up all that it is given.

    Followed are the statements of `body`, the loop's, that lead to the loss, and the program's own
    functions, classes and variables that they name in a call.
    """
    sources: list[ast.AST] = [backward.statement]
    needed = loss_names(backward)
    for statement in reversed(body[: body.index(backward.statement)]):
        if given_names(statement) & needed:
            sources.append(statement)
            needed |= names_in(statement)
    return any(
        _adds_up(node)
        for at in reached(program, sources)
        for part in running_parts(at)
        for node in ast.walk(part)
    )


def _adds_up(node: ast.AST) -> bool:
    """Whether `node` is `x.sum()`, `torch.sum(x)` or `reduction="sum"`."""
    match node:
        case ast.keyword(arg="reduction", value=ast.Constant(value="sum")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "th")), args=[_], keywords=[]):
            return is_method(node, "sum")
        case ast.Call(args=[], keywords=[]):
            return is_method(node, "sum")
    return False
