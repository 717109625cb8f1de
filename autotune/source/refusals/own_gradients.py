"""Where a program gives its weights gradients of its own making, or reads those they have."""

import ast
import contextlib
import re
from collections.abc import Collection, Iterator

from autotune.source.loops.loss import GATHERING
from autotune.source.named import calls_named
from autotune.source.places import Call, backward_call, step_call
from autotune.source.program import Program, Refusal, first_of
from autotune.source.reach import reached
from autotune.source.refusals.gathering import SAME_MEMORY
from autotune.source.script import Function, Script, is_none, last_name, stored_names

_OPTIMIZER = re.compile(r"Optim|SGD|Adam", re.IGNORECASE)
_TURNED = frozenset(("T", "mT", "H", "mH"))
_TURNING = frozenset(("t", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"))
# Whose results lie column by column, as LAPACK writes them, or as their indices were summed.
_BY_COLUMNS = frozenset(
    (
        *("solve", "solve_ex", "solve_triangular", "triangular_solve", "lstsq", "lu_solve"),
        *("ldl_solve", "cholesky_solve", "cholesky", "cholesky_inverse", "qr", "svd", "eig"),
        *("eigh", "inv", "inv_ex", "inverse", "pinv", "pinverse", "householder_product"),
        *("ormqr", "matrix_exp", "einsum", "tensordot", "cho_solve"),
    )
)
_SAME = SAME_MEMORY | {"T", "cpu", "data", "numpy", "t", "to"}
_COMPUTED = ast.BinOp | ast.UnaryOp | ast.Compare
# Where a variable becomes a part of something else, or has another name.
_GIVEN_AWAY = ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Return | ast.Yield | ast.Assign


def turned_gradients(program: Program) -> str:
    """Where a weight is given a gradient that may lie otherwise: transposed, or by columns."""
    for script, node in _set_gradients(program):
        given = reached(program, [node.value, *_values_of(script, node.value)])
        if any(_turns(part) for each in given for part in _lying_as_made(each)):
            return script.at(node)
    return ""


def gradients_given(program: Program) -> str:
    """Where a weight is given a gradient not computed of its own, which lies in the usual order."""
    return first_of(
        (script, node)
        for script, node in _set_gradients(program)
        if not (is_none(node.value) or _is_of_gradient(node.value))
    )


def _set_gradients(program: Program) -> Iterator[tuple[Script, ast.Assign]]:
    """Where the program sets a weight's gradient."""
    for script in program.scripts.values():
        for node in script.nodes if ".grad" in script.text else ():
            if isinstance(node, ast.Assign) and any(map(_is_gradient, node.targets)):
                yield script, node


def _is_of_gradient(value: ast.expr) -> bool:
    """Whether `value` is `p.grad * scale`."""
    sides = (value.left, value.right) if isinstance(value, ast.BinOp) else ()
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in sides)


def gradients_read(program: Program) -> str:
    """Where a weight's gradient is read in whatever step, but to ask whether there is one, or for
    what is computed of it between backward and the step, before anything writes into it.
    """
    before = _before_step(program)
    return first_of(
        (script, node)
        for script, node in _reads(program)
        if not (_is_used_up(script, node) and _runs_in(program, script, node, before, set()))
    )


def cleared_ones_read(program: Program, clearing: Call) -> str:
    """Where a gradient may be read after `clearing`, if that comes behind backward."""
    script, function = clearing.script, clearing.script.function(clearing.node)
    ends = script.start(clearing.node)
    begins = script.start(function) if function else ends
    with contextlib.suppress(Refusal):
        backward = backward_call(program, "")
        if backward.script is script and script.function(backward.node) is function:
            begins = script.end(backward.node)
    if begins > ends:
        return ""
    kept = _within(script, function, begins, ends)
    for reading, node in _reads(program):
        reader = reading.function(node)
        of_optimizer = reader is not None and _is_an_optimizers(reading, reader)
        if not (of_optimizer or _runs_in(program, reading, node, kept, set())):
            return reading.at(node)
    return ""


def _is_an_optimizers(script: Script, function: Function) -> bool:
    """Whether it is how an optimizer of the program's own steps."""
    kind = next(script.ancestors(function), None)
    bases = kind.bases if isinstance(kind, ast.ClassDef) else []
    return function.name == "step" and any(_OPTIMIZER.search(last_name(at)) for at in bases)


def _reads(program: Program) -> Iterator[tuple[Script, ast.Attribute]]:
    """Where the program reads gradients of its weights, not only whether there are some."""
    for script in program.scripts.values():
        for node in script.nodes if ".grad" in script.text else ():
            match node:
                case ast.Attribute(attr="grad", ctx=ast.Load()):
                    if not (_asks(script, node) or _is_of_its_own(script, node)):
                        yield script, node


def _before_step(program: Program) -> set[ast.AST]:
    """What stands between backward and the one optimizer's step, if gradients are cleared."""
    try:
        backward, step = backward_call(program, ""), step_call(program, "")
    except Refusal:
        return set()
    script, function = backward.script, backward.script.function(backward.node)
    together = step.script is script and script.function(step.node) is function
    clears = any(calls_named(program, "zero_grad"))
    if program.places.more_optimizers or not (together and clears):
        return set()
    return _within(script, function, script.end(backward.node), script.start(step.node))


def _within(script: Script, function: Function | None, begins: int, ends: int) -> set[ast.AST]:
    """What of `function` begins between two offsets."""
    parts = ast.walk(function or script.tree)
    placed = (at for at in parts if isinstance(at, ast.expr | ast.stmt))
    return {at for at in placed if begins < script.start(at) < ends}


def _runs_in(
    program: Program,
    script: Script,
    node: ast.AST,
    inside: Collection[ast.AST],
    known: set[str],
) -> bool:
    """Whether `node` is `inside`, or in a function (but the `known`) that is called there alone."""
    function = script.function(node)
    if node in inside or function is None:
        return node in inside
    if function.name in known:
        return True
    known.add(function.name)
    calls = list(calls_named(program, function.name))
    return bool(calls) and all(_runs_in(program, at, each, inside, known) for at, each in calls)


def _is_used_up(script: Script, gradient: ast.Attribute) -> bool:
    """Whether something new is computed of `gradient` at once, and nobody has its memory then."""
    part: ast.AST = gradient
    for above in script.ancestors(gradient):
        match above:
            case ast.Attribute(attr=name) if name not in _SAME and not name.endswith("_"):
                return True
            case ast.Attribute() | ast.Subscript():
                part = above
            case ast.Call(func=function) if function is part:
                part = above
            case ast.Call(func=function):
                is_new = last_name(function) not in _SAME
                return is_new and script.qualified(function).startswith("torch.")
            case _:
                return isinstance(above, _COMPUTED | ast.Expr)
    return False


def _is_of_its_own(script: Script, gradient: ast.Attribute) -> bool:
    """Whether whose gradient it is was made by the function that reads it, and becomes no weight:
    `change.grad` of a change to a batch, by which an attack is made; or is no tensor at all.
    """
    function, owner = script.function(gradient), gradient.value
    if last_name(owner) == "self":
        return True
    if function is None or not isinstance(owner, ast.Name):
        return False
    named = [at for at in ast.walk(function) if isinstance(at, ast.Name) and at.id == owner.id]
    made = [next(script.ancestors(at)) for at in named if isinstance(at.ctx, ast.Store)]
    used = [next(script.ancestors(at)) for at in named if isinstance(at.ctx, ast.Load)]
    gathered = (isinstance(at, ast.Call) and last_name(at.func) in GATHERING for at in used)
    if any(gathered) or any(isinstance(at, _GIVEN_AWAY) for at in used):
        return False
    asked = any("requires_grad" in ast.unparse(at) for at in made) or any(
        isinstance(at, ast.Attribute)
        and (at.attr == "requires_grad_" or isinstance(at.ctx, ast.Store))
        and at.attr.startswith("requires_grad")
        for at in used
    )
    news = (isinstance(at, ast.Assign) and isinstance(at.value, ast.Call) for at in made)
    return asked and bool(made) and all(news)


def _asks(script: Script, gradient: ast.Attribute) -> bool:
    match next(script.ancestors(gradient), None):
        case ast.Compare(comparators=[ast.Constant(value=None)]):
            return True
        case ast.Attribute(attr="zero_" | "detach_"):
            return True
        case ast.If(test=test) | ast.IfExp(test=test):
            return test is gradient
    return False


def _is_gradient(target: ast.expr) -> bool:
    if isinstance(target, ast.Attribute) and target.attr == "data":
        target = target.value
    match target:
        case ast.Attribute(attr="grad", value=owner):
            return last_name(owner) != "self"  # an object's of the program's own
    return False


def _values_of(script: Script, value: ast.expr) -> list[ast.AST]:
    """What the function round `value` gives its variables, and what it takes them from."""
    names = {each.id for each in _lying_as_made(value) if isinstance(each, ast.Name)}
    found: list[ast.AST] = []
    for node in ast.walk(script.function(value) or script.tree):
        match node:
            case ast.Assign(targets=targets, value=given):
                found += [given] if names & set[str]().union(*map(stored_names, targets)) else []
            case ast.For(target=target, iter=given) | ast.comprehension(target=target, iter=given):
                found += [given] if names & stored_names(target) else []
    return found


def _lying_as_made(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and what is in it, without the factors of a matrix product, which is a new matrix."""
    yield node
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
        for inner in ast.iter_child_nodes(node):
            yield from _lying_as_made(inner)


def _turns(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) if name in _TURNED:
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _TURNING or name in _BY_COLUMNS
    return False
