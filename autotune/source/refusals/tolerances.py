"""A training that ends once its error is small: a short number format may never come to that."""

import ast
import re
from collections.abc import Set

from autotune.source.calls.writes import stored_in
from autotune.source.loops.around_training import loops_of_training, running_within
from autotune.source.loops.beginnings import ending_tests
from autotune.source.named import option_defaults
from autotune.source.program import Program
from autotune.source.script import Script, last_name

_ERROR = re.compile(
    r"loss|mse|resid|objective|(^|_)(err(or)?s?|mae|cost|diff|grad|norm)(_|$)", re.IGNORECASE
)
# bfloat16 gives 8 bits of a number: rounded so, outputs of around 1 leave a squared error of some
# millionths by themselves. An error that need be no smaller than this is reached in it too.
_COARSE = 1e-2


def small_error(program: Program) -> str:
    """Where the training ends once its error, or that's change, is below a number that stays."""
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
