"""What a short number format loses beyond the compared steps: small chances, steps and errors; and
constants too small for it, or (denormal ones) for a CPU that is to take such for zero.
"""

import ast
import re
from collections.abc import Iterator, Set

from autotune.source.calls.writes import stored_in
from autotune.source.loops.around_training import loops_of_training, running_within
from autotune.source.loops.beginnings import ending_tests
from autotune.source.named import option_defaults, values_by_name
from autotune.source.program import Program, first_of
from autotune.source.reach import calls_in
from autotune.source.refusals.kept_inside import FORWARD, forward_methods, kept_in, may_be_short
from autotune.source.script import Function, Script, last_name, stored_names, straight

# Random numbers in [0, 1) in the format of what they are drawn for; bfloat16 has those of 256.
_LIKE = frozenset(("rand_like", "uniform_"))
# Makers of tensors in float32, whatever others are in: `torch.empty(3).uniform_()`.
_FLOAT32 = frozenset(("FloatTensor", "Tensor", "empty", "zeros", "ones"))
# What keeps numbers from 0 and 1.
_BOUNDING = frozenset(("clamp", "clamp_", "clamp_min", "clip", "add", "maximum"))
_OFTEN = 1 / 32  # what bfloat16 takes to be up to an eighth more
# Of float32. What rounds to no number of it is zero in it with denormal ones, too.
_SMALLEST, SMALLEST_NORMAL = 2.0**-150, 2.0**-126
ZERO_IN_BFLOAT16 = 2.0**-134  # what is smaller
_ERROR = re.compile(
    r"loss|mse|resid|objective|(^|_)(err(or)?s?|mae|cost|diff|grad|norm)(_|$)", re.IGNORECASE
)
# bfloat16 gives 8 bits of a number: rounded so, outputs of around 1 leave a squared error of some
# millionths by themselves. An error that need be no smaller than this is reached in it too.
_COARSE = 1e-2


def rare_chance(program: Program) -> str:
    """Where a model compares random numbers in a short format with a small chance, or logs them."""
    for script in program.scripts.values():
        for method in forward_methods(script) if any(at in script.text for at in _LIKE) else ():
            kind = next(script.ancestors(method))
            outermost = isinstance(kind, ast.ClassDef) and kind.name in _outermost(program)
            given = {at.arg for at in method.args.args if outermost and method.name == FORWARD}
            for node in _asked_of_chance(method, given - stored_names(method)):
                return script.at(node)
    return ""


def _outermost(program: Program) -> set[str]:
    """The classes of the models that the training calls: what these are given is float32."""
    names = {each.callee.rpartition(".")[2] for each in program.places.outputs}
    return {
        last_name(_built(value))
        for script in program.scripts.values()
        for name in names
        for value in values_by_name(script).get(name, ())
    }


def _built(value: ast.expr) -> ast.expr:
    """The `Net` of `Net().to(device)`."""
    while isinstance(value, ast.Call):
        inner = value.func.value if isinstance(value.func, ast.Attribute) else None
        if not isinstance(inner, ast.Call):
            return value.func
        value = inner
    return value


def _asked_of_chance(method: Function, inputs: Set[str]) -> Iterator[ast.expr]:
    drawn = {
        last_name(target)
        for node in ast.walk(method)
        if isinstance(node, ast.Assign) and _draws(node.value, inputs)
        for target in node.targets
    }

    def is_drawn(value: ast.expr) -> bool:
        return _draws(value, inputs) or (isinstance(value, ast.Name) and value.id in drawn)

    for node in ast.walk(method):
        match node:
            case ast.Compare(left=one, comparators=[other]):
                if any(map(is_drawn, (one, other))) and not any(map(_is_often, (one, other))):
                    yield node
            case ast.Call(func=function, args=given) if last_name(function) == "log":
                owner = [function.value] if isinstance(function, ast.Attribute) else []
                if any(is_drawn(at) for each in (*given, *owner) for at in _terms(each)):
                    yield node


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    """What `value` is, and what arithmetic makes it of: nothing that another call is given."""
    yield value
    match value:
        case ast.BinOp(left=one, right=other):
            yield from (*_terms(one), *_terms(other))
        case ast.UnaryOp(operand=one):
            yield from _terms(one)
        case ast.Call(func=function, args=given) if last_name(function) in _BOUNDING:
            owner = [function.value] if isinstance(function, ast.Attribute) else []
            for each in (*owner, *given[:1]):
                yield from _terms(each)


def _draws(value: ast.AST, inputs: Set[str]) -> bool:
    """Whether it draws numbers in the format of something, other than of the model's `inputs`."""
    match value:
        case ast.Call(args=[ast.Name(id=name), *_]) if name in inputs:
            return False
        case ast.Call(func=ast.Attribute(value=ast.Call(func=maker, keywords=given))):
            if last_name(maker) in _FLOAT32 and not any(at.arg == "dtype" for at in given):
                return False
    return isinstance(value, ast.Call) and last_name(value.func) in _LIKE


def _is_often(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=int() | float() as chance):
            return _OFTEN <= chance <= 1 - _OFTEN
    return False


def running_values(program: Program, *, on_a_gpu: bool) -> str:
    """Where a module moves on by a step what it keeps in the format of autocast."""
    for script in program.scripts.values():
        for method in forward_methods(script):
            kept = [(name, value) for name, value in kept_in(method)]
            anew = {at.value for at in straight(method.body) if isinstance(at, ast.Assign)}
            began = {
                name
                for name, value in kept
                if not _mentions(value, name) and may_be_short(method, value, on_a_gpu)
            } - {name for name, value in kept if value in anew and not _mentions(value, name)}
            for name, value in kept:
                if name in began and _moves_on(value, name):
                    return script.at(value)
    return ""


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(at, ast.Attribute) and at.attr == name for at in ast.walk(value))


def _moves_on(value: ast.expr, name: str) -> bool:
    """Whether it is `self.mean + m * (new - self.mean)`, or what `lerp` gives of it."""
    if isinstance(value, ast.BinOp):
        return _mentions(value, name)
    return any(last_name(call.func) == "lerp" and _mentions(call, name) for call in calls_in(value))


def denormal_constant(program: Program, below: float = SMALLEST_NORMAL) -> str:
    """Where the program has one, `below` this: taken for zero, it would keep nothing finite."""
    return first_of(
        (script, at)
        for script, at in program.nodes()
        if isinstance(at, ast.Constant) and isinstance(at.value, float)
        if _SMALLEST <= at.value < below
        if not (below == ZERO_IN_BFLOAT16 and _is_added_to_float32(script, at))
    )


def _is_added_to_float32(script: Script, number: ast.expr) -> bool:
    """Whether it is added to what is cast to float32 there: autocast leaves sums in that."""
    match next(script.ancestors(number), None):
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            other = right if left is number else left
        case _:
            return False
    match other:
        case ast.Call(func=ast.Attribute(attr="float"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[dtype]):
            return last_name(dtype) in ("float32", "float")
    return False


def small_error(program: Program) -> str:
    """Where the training ends once its error, or its change, is below a number that stays."""
    inner, outer = loops_of_training(program)
    ran = running_within(program, [*inner, *outer])
    moved = set(map(last_name, stored_in(at for _, at in program.nodes() if at in ran)))
    for script in program.scripts.values():
        for loop in (at for at in script.nodes if at in inner or at in outer):
            for test, ends in ending_tests(script, loop):
                for compared in ast.walk(test):
                    if isinstance(compared, ast.Compare) and _is_of_an_error(
                        program, script, compared, moved, ends=ends
                    ):
                        return script.at(compared)
    return ""


def _is_of_an_error(
    program: Program, script: Script, compared: ast.Compare, moved: Set[str], *, ends: bool
) -> bool:
    """Whether `compared` holds (or, of a `while`, does no more) once an error is below a bound."""
    left, right = compared.left, compared.comparators[0]
    below = isinstance(compared.ops[0], ast.Lt | ast.LtE)
    above = isinstance(compared.ops[0], ast.Gt | ast.GtE)
    if not (below or above):
        return False
    error, bound = (left, right) if below is ends else (right, left)
    named = _names(error)
    goes_on = not moved.isdisjoint(named) or any(isinstance(at, ast.Call) for at in ast.walk(error))
    if not any(map(_ERROR.search, named)) or "len" in named or not goes_on:
        return False
    computed = any(isinstance(at, ast.Call | ast.Subscript) for at in ast.walk(bound))
    if computed or not moved.isdisjoint(_names(bound)):  # of the best so far, or of a moment ago
        return False
    size = _size(program, script, bound)
    return size is None or 0 < size < _COARSE


def _names(value: ast.expr) -> list[str]:
    return [last_name(at) for at in ast.walk(value) if isinstance(at, ast.Name | ast.Attribute)]


def _size(program: Program, script: Script, bound: ast.expr) -> float | None:
    """The number that `bound` is, by itself, its one value, or an option's default, else None."""
    match bound:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name) if len(given := script.binds(name)) == 1:
            return _size(program, script, given[0]) if not isinstance(given[0], ast.Name) else None
        case ast.Attribute(attr=name):
            defaults = [value for _, value in option_defaults(program, name)]
            return _size(program, script, defaults[0]) if len(defaults) == 1 else None
    return None
