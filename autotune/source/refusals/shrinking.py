"""Where what a program makes smaller from step to step, and keeps, is asked whether it is zero."""

import ast
from collections.abc import Collection, Iterator
from itertools import pairwise

from autotune.source.calls.writes import given_values
from autotune.source.loops.around_training import own_loops
from autotune.source.program import Program, first_of
from autotune.source.reach import is_bound
from autotune.source.refusals.short_numbers import SMALLEST_NORMAL
from autotune.source.script import (
    Function,
    Script,
    last_name,
    parameters,
    shared_names,
    stored_names,
    straight,
)

# What is another for zero than for the smallest number.
_LOGARITHMS = frozenset(("log", "log2", "log10", "log_", "rsqrt", "reciprocal"))
_ASKING = _LOGARITHMS | frozenset(
    ("nonzero", "count_nonzero", "flatnonzero", "argwhere", "sign", "sgn", "any", "all", "bool")
)
# What is looked at of a tensor that is none of its numbers.
_ABOUT = frozenset(("shape", "size", "dim", "ndim", "numel", "device", "dtype", "grad"))
_LIBRARIES = frozenset(
    ("torch", "np", "numpy", "math", "cmath", "scipy", "jax", "cupy", "tf", "tensorflow", "xp")
)
_KEEPING = frozenset(("len", "clamp", "clamp_", "clamp_min", "maximum", "clip", "nan_to_num"))
# A name of a function's, or an attribute's of any object.
_Key = tuple[Function | None, str]
# What changes a tensor, or an array, by a factor, in its own memory.
_BY_A_FACTOR = frozenset(("mul_", "multiply_"))
_BOUNDING = frozenset(("maximum", "clamp", "clamp_", "clamp_min", "clip"))
_MODULES = frozenset(("torch", "np", "numpy"))
_SHRINKING = _BY_A_FACTOR | frozenset(
    ("div_", "divide_", "lerp_", "pow_", "square_", "exp2_", "_foreach_mul_")
)


def asked_whether_zero(program: Program) -> str:
    """Where the program asks that of such numbers, or of others computed from them, by names."""
    text = _Text(program)
    known = {key for script, target in _shrunk(program) for key in text.keys(script, target)}
    if not known:
        return ""
    text.follow(known)
    return first_of(
        (script, node)
        for script, node in text.nodes
        for asked in _asked(script, node)
        if text.mentions(script, asked, known)
    )


def _asked(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    """What `node` asks whether it is zero, or takes the logarithm of, or divides by."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            sides = pairwise((left, *others))
            for by, (one, other) in zip(operators, sides, strict=True):
                yield from [one] if _tells_zero(by, other) else []
                yield from [other] if _tells_zero(by, one) else []
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given) if name in _ASKING:
            yield from () if _is_told(script, node) else (owner, *given)
        case ast.BinOp(op=ast.Div(), right=divisor):
            yield divisor


def _tells_zero(by: ast.cmpop, other: ast.expr) -> bool:
    """Whether comparing `by` this with `other` tells zero from what is almost zero."""
    if isinstance(other, ast.UnaryOp):
        other = other.operand
    if not isinstance(other, ast.Constant):
        return isinstance(by, ast.Eq | ast.NotEq)
    return isinstance(other.value, int | float) and abs(other.value) < SMALLEST_NORMAL


def _is_told(script: Script, call: ast.Call) -> bool:
    """Whether a tracker is given it: `wandb.log(row)`; a tensor's own `log` is given nothing."""
    owners = script.qualified(call.func).split(".")[:-1]
    return bool(call.args and last_name(call.func) == "log") and _LIBRARIES.isdisjoint(owners)


class _Text:
    """The text of a program, by what is computed from what.

    Attributes:
        nodes: what computes, keeps or asks, and in which file.
    """

    def __init__(self, program: Program) -> None:
        kinds = (ast.Assign, ast.AugAssign, ast.Return, ast.Call, ast.Compare, ast.BinOp)
        self.nodes = [(script, node) for script, node in program.nodes() if isinstance(node, kinds)]
        self._functions: dict[str, list[tuple[Script, Function]]] = {}
        for script, function in program.functions():
            self._functions.setdefault(function.name, []).append((script, function))
        self._own = {
            function: {*parameters(function), *stored_names(function)} - shared_names(function)
            for functions in self._functions.values()
            for _, function in functions
        }

    def follow(self, known: set[_Key]) -> None:
        """Add the names of what is computed from what is `known`, and of functions that give it."""
        passing = [
            (script, node)
            for script, node in self.nodes
            if isinstance(node, ast.Assign | ast.Return | ast.Call)
        ]
        before = 0
        while len(known) != before:
            before = len(known)
            for script, node in passing:
                known.update(self._passed_on(script, node, known))

    def _passed_on(self, script: Script, node: ast.AST, known: set[_Key]) -> Iterator[_Key]:
        match node:
            case ast.Assign(targets=targets, value=value) if self.mentions(script, value, known):
                for target in targets:
                    for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                        yield from self.keys(script, each)
            case ast.Return(value=ast.expr() as value) if self.mentions(script, value, known):
                function = script.function(node)
                yield from [(None, function.name)] if function is not None else []
            case ast.Call(func=called, args=given) if last_name(called) in self._functions:
                for number, each in enumerate(given):
                    if self.mentions(script, each, known):
                        yield from self._parameters(last_name(called), number)

    def _parameters(self, called: str, number: int) -> Iterator[_Key]:
        """What functions of that name call their argument `number`."""
        for script, function in self._functions[called]:
            names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
            names = names[1:] if is_bound(script, function) else names
            if number < len(names):
                yield (function, names[number])

    def mentions(self, script: Script, expression: ast.expr, known: set[_Key]) -> bool:
        """Whether `known` numbers are in `expression`, and nothing is added to them."""
        match expression:
            case (
                ast.Constant()
                | ast.Compare()
                | ast.BinOp(op=ast.Add())
                | ast.Attribute(attr="grad")
            ):
                return False
            case ast.Subscript(value=owner):
                return self.mentions(script, owner, known)
            case ast.Attribute(attr=name) | ast.Call(func=ast.Attribute(attr=name)) if (
                name in _ABOUT
            ):
                return False
            case ast.Call(func=called) if last_name(called) in _KEEPING:
                return False
            case ast.Name() | ast.Attribute() if not known.isdisjoint(
                self.keys(script, expression)
            ):
                return True
        parts = (at for at in ast.iter_child_nodes(expression) if isinstance(at, ast.expr))
        return any(self.mentions(script, part, known) for part in parts)

    def keys(self, script: Script, expression: ast.expr) -> list[_Key]:
        """The names by which `expression` is known, if it is a variable or a part of one."""
        match expression:
            case ast.Attribute(value=owner, attr="data") | ast.Subscript(value=owner):
                return self.keys(script, owner)
            case ast.Attribute(attr=name) if name != "grad":
                return [(None, name)]
            case ast.Name(id=name):
                function = script.function(expression)
                own = function is None or name in self._own[function]
                return [(function if own else None, name)]
        return []


def _shrunk(program: Program) -> Iterator[tuple[Script, ast.expr]]:
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
