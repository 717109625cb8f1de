"""What a program makes smaller from step to step, where it lies, and keeps."""

import ast
from collections.abc import Collection, Iterator

from autotune.source.calls.writes import given_values
from autotune.source.loops.around_training import own_loops
from autotune.source.program import Program
from autotune.source.script import Function, Script, last_name, shared_names, straight

# What changes a tensor, or an array, by a factor, in its own memory.
_BY_A_FACTOR = frozenset(("mul_", "multiply_"))
_BOUNDING = frozenset(("maximum", "clamp", "clamp_", "clamp_min", "clip"))
_MODULES = frozenset(("torch", "np", "numpy"))
_SHRINKING = _BY_A_FACTOR | frozenset(
    ("div_", "divide_", "lerp_", "pow_", "square_", "exp2_", "_foreach_mul_")
)


def shrunk(program: Program) -> Iterator[tuple[Script, ast.expr]]:
    """What is made smaller so, with the file that does it."""
    loops = [loop for some in own_loops(program) for loop in some]
    for script in program.scripts.values():
        training = {script.function(loop) for loop in loops}
        for node in script.nodes:
            for target, factor in _multiplied(node):
                if not _is_no_less(factor) and _is_kept(script, target, node, training):
                    yield script, target


def _multiplied(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What `node` multiplies or divides where it lies, with the factor where that is written."""
    match node:
        case ast.Call(func=ast.Attribute(attr="_foreach_mul_"), args=[owner, *_]):
            yield owner, None
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given) if name in _SHRINKING:
            yield owner, given[0] if given and name in _BY_A_FACTOR else None
        case ast.AugAssign(target=target, op=ast.Mult(), value=factor):
            yield target, factor
        case ast.AugAssign(target=target, op=ast.Div()):
            yield target, None
        case ast.Assign(targets=[target], value=value):
            for at in _unbounded(value):
                match at:
                    case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as by, right=right):
                        for one, other in ((left, right), (right, left)):
                            if ast.unparse(one) == ast.unparse(target):
                                yield target, other if isinstance(by, ast.Mult) else None


def _unbounded(value: ast.AST) -> Iterator[ast.AST]:
    """The parts of `value`, but for what is kept above something (`max(0.5, t * 0.99)`)."""
    yield value
    for part in () if _is_bounded(value) else ast.iter_child_nodes(value):
        yield from _unbounded(part)


def _is_bounded(value: ast.AST) -> bool:
    """Whether `value` is kept above a number that is more than zero, or by its name may be."""
    match value:
        case ast.Call(func=ast.Name(id="max"), args=[_, _, *_] as given):
            bounds = given
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given, keywords=named) if (
            name in _BOUNDING
        ):
            of_module = last_name(owner) in _MODULES
            bounds = [*given[of_module:][:1], *(at.value for at in named if at.arg == "min")]
        case _:
            return False
    return any(
        isinstance(at, ast.Name | ast.Attribute)
        or (isinstance(at, ast.Constant) and isinstance(at.value, float) and at.value > 0)
        for at in bounds
    )


def _is_no_less(factor: ast.expr | None) -> bool:
    """Whether nothing is smaller for that `factor`: the turn of who is to move, a doubled width."""
    while isinstance(factor, ast.UnaryOp):
        factor = factor.operand
    return (
        isinstance(factor, ast.Constant)
        and isinstance(factor.value, int | float)
        and abs(factor.value) >= 1
    )


def _is_kept(
    script: Script, target: ast.expr, node: ast.AST, training: Collection[Function | None]
) -> bool:
    """Whether what `node` multiplies may be there in the next step, and is not begun anew."""
    function = script.function(node)
    if function is not None and function.name == "__init__":
        return False
    rebound = isinstance(target, ast.Name) and isinstance(node, ast.Assign)
    while isinstance(target, ast.Subscript):
        target = target.value
    if not isinstance(target, ast.Name):
        return function is None or not _is_set_before(script, function, target, node)
    if function is not None and target.id in shared_names(function):
        return True
    loops = [above for above in script.ancestors(node) if isinstance(above, ast.For | ast.While)]
    if function is not None and training and function not in training:
        made = (at for at in ast.walk(function) if isinstance(at, ast.Assign) and at is not node)
        anew = any(target.id in map(last_name, at.targets) for at in made)
        if anew or (rebound and not loops):
            return False
    if any(_is_begun_anew(at, target.id) for loop in loops[:1] for at in straight(loop.body)):
        return False
    within = [at for loop in loops[:1] for at in ast.walk(loop)]
    stored = [at for at in within if isinstance(at, ast.Name) and at.id == target.id]
    return not rebound or sum(isinstance(at.ctx, ast.Store) for at in stored) == 1


def _is_set_before(script: Script, function: Function, target: ast.expr, node: ast.AST) -> bool:
    """Whether each call of `function` sets `target` anew before `node`, which it comes to once."""
    code, statement = ast.unparse(target), script.statement(node)
    block = list(straight(function.body))
    given = block[: block.index(statement)] if statement in block else []
    return any(
        isinstance(at, ast.Assign)
        and code in map(ast.unparse, at.targets)
        and code not in ast.unparse(at.value)
        for at in given
    )


def _is_begun_anew(node: ast.AST, name: str) -> bool:
    """Whether `node` sets the variable to a number: of a loop's round a sum, or a mean."""
    return any(
        last_name(target) == name and isinstance(value, ast.Constant)
        for target, value in given_values(node)
    )
