"""Numbers that what is trained on is multiplied by: a step computes the same, whatever they are."""

import ast
from collections.abc import Collection

from autotune.source.loops.condition import code_in
from autotune.source.loops.how_far import Counted
from autotune.source.loops.settled import is_option
from autotune.source.named import values_by_name
from autotune.source.program import Program
from autotune.source.reach import calls_in, defaults_of
from autotune.source.script import Script, last_name

# What gives a number of numbers, and of no tensors where these are counters.
_OF_NUMBERS = frozenset(
    (
        *("abs", "float", "int", "len", "max", "min", "round"),
        *("cos", "exp", "pow", "sin", "sqrt", "tanh"),
    )
)


def coefficients(
    program: Program, script: Script, given: Collection[str], counted: Counted
) -> set[str]:
    """The code of those `given` that are only ever numbers, and that no condition asks for."""
    names = {code: code.rpartition(".")[2] for code in given}
    numbers = {
        code for code, name in names.items() if _are_numbers(script, name, counted, frozenset())
    }
    asked = _asked_for(program) if numbers else set[str]()
    return {code for code in numbers if names[code] not in asked}


def _asked_for(program: Program) -> set[str]:
    """The last names of what decides on something."""
    found = set[str]()
    for _, node in program.nodes():
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                tests = [test]
            case ast.comprehension(ifs=tests) | ast.BoolOp(values=tests):
                pass
            case _:
                continue
        found |= {code.rpartition(".")[2] for test in tests for code in code_in(test)}
    return found


def _are_numbers(script: Script, name: str, counted: Counted, known: frozenset[str]) -> bool:
    """Whether all that the file sets `name` to are numbers, as far as `known` names are."""
    values = values_by_name(script).get(name, ())
    return bool(values) and all(
        name in known or _is_number(script, value, counted, known | {name}) for value in values
    )


def _is_number(script: Script, value: ast.expr, counted: Counted, known: frozenset[str]) -> bool:
    match value:
        case ast.Constant():
            return not isinstance(value.value, str)
        case ast.BinOp(left=left, op=ast.Div() | ast.FloorDiv(), right=right) if all(
            last_name(call.func) in _OF_NUMBERS for call in calls_in(right)
        ):
            parts = [left]
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.IfExp(body=then, orelse=other):
            parts = [then, other]
        case ast.Call(func=by, args=args) if last_name(by) in _OF_NUMBERS:
            parts = args
        case ast.Compare():
            return True
        case ast.Name() | ast.Attribute():
            return (
                counted.has(value)
                or is_option(value)
                or _is_default(script, value)
                or _are_numbers(script, last_name(value), counted, known)
            )
        case _:
            return False
    return all(_is_number(script, at, counted, known) for at in parts)


def _is_default(script: Script, value: ast.expr) -> bool:
    """Whether `value` is a parameter that is a number where nothing is given for it."""
    function = script.function(value)
    default = defaults_of(function).get(last_name(value)) if function else None
    return isinstance(default, ast.Constant) and isinstance(default.value, int | float)
