"""What the loss is computed from, as far as the source shows: is it a mean over its samples?"""

import ast
from collections.abc import Iterator

from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import reached, running_parts
from autotune.source.script import is_method, names_in, stored_names

BACKWARDS = ("backward", "manual_backward")
WITHOUT_GRADIENTS = frozenset(("no_grad", "inference_mode", "set_grad_enabled"))
# What torch.nn.utils has for clipping.
# fmt: off
CLIPS = (
    "clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_",
    "get_total_norm",
)
# fmt: on
# Methods that put what they are given into a container.
GATHERING = ("append", "extend", "insert", "add", "update", "setdefault")
_WEIGHTS = ("parameters", "named_parameters")


def loss_names(backward: Call) -> set[str]:
    """The variables in the expression that `backward` is called on."""
    return names_in(receiver_of(backward))


def receiver_of(call: Call) -> ast.expr:
    """The `loss` of `loss.backward()`."""
    function = call.node.func
    assert isinstance(function, ast.Attribute)
    return function.value


def given_names(statement: ast.stmt) -> set[str]:
    """The variables that `statement` gives a value, or adds to (`groups[0].append(...)`)."""
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


def adds_up_at(program: Program, loop: ast.For, backward: Call) -> str:
    """Where something that the loss comes from adds up all that it is given: file and line, ""
    where nothing does; a penalty on the weights and what is divided by the batch's size do not.
    """
    sources: list[ast.AST] = [backward.statement]
    needed = loss_names(backward)
    for statement in reversed(loop.body[: loop.body.index(backward.statement)]):
        if given_names(statement) & needed:
            sources.append(statement)
            needed |= names_in(statement)
    parts = [part for at in reached(program, sources) for part in running_parts(at)]
    nodes = [node for part in parts for node in ast.walk(part)]
    harmless = {each for node in nodes for each in (*_of_weights(node), *_means(node, loop))}
    for node in nodes:
        if _adds_up(node) and node not in harmless:
            return next(at.at(node) for at in program.scripts.values() if node in at.nodes)
    return ""


def _of_weights(node: ast.AST) -> Iterator[ast.AST]:
    """The sums over nothing but weights, where `node` goes over those of a model."""
    match node:
        case ast.For(target=target, iter=source, body=block):
            parts: list[ast.AST] = [*block]
        case (
            ast.GeneratorExp(elt=part, generators=[ast.comprehension(target=target, iter=source)])
            | ast.ListComp(elt=part, generators=[ast.comprehension(target=target, iter=source)])
        ):
            parts = [part]
        case _:
            return
    weights, given = names_in(target), {name for part in parts for name in stored_names(part)}
    if any(is_method(source, name) for name in _WEIGHTS) and not weights & given:
        for call in (at for part in parts for at in ast.walk(part) if isinstance(at, ast.Call)):
            if weights >= names_in(call) - {"torch"} != set():
                yield call


def _means(node: ast.AST, loop: ast.For) -> Iterator[ast.AST]:
    """What `node` divides by the size of the batch, which is a mean."""
    batch: ast.expr = loop.target
    match batch, loop.iter:
        case ast.Tuple(elts=[_, counted]), ast.Call(func=ast.Name(id="enumerate")):
            batch = counted
    names = names_in(batch) if isinstance(batch, ast.Tuple) else set[str]()
    match node:
        case ast.BinOp(
            left=ast.Call() as added,
            op=ast.Div(),
            right=(
                ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="size"),
                    args=[ast.Constant(value=0)],
                )
                | ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id=name), attr="shape"),
                    slice=ast.Constant(value=0),
                )
            ),
        ) if name in names and name not in _made_another(loop) and node in ast.walk(loop):
            yield from (added, *added.keywords)


def _made_another(loop: ast.For) -> Iterator[str]:
    """The variables that `loop` gives another value than themselves on a device."""
    moved = set[ast.AST]()
    for node in (at for at in ast.walk(loop) if isinstance(at, ast.Assign)):
        match node.targets, node.value:
            case [ast.Tuple(elts=targets)], ast.Tuple(elts=values):
                pass
            case targets, value:
                values = [value]
        for target, value in zip(targets, values, strict=False):
            match target, value:
                case (
                    ast.Name(id=name),
                    ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr="to" | "cuda")),
                ) if own == name:
                    moved.add(target)
    for at in (each for statement in loop.body for each in ast.walk(statement)):
        if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store) and at not in moved:
            yield at.id


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
