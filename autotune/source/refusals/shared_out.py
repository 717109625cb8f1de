"""Where a stream gives its workers the same whole number of parts each, and none the rest."""

import ast
import re
from collections.abc import Iterator

from autotune.source.calls.writes import given_values
from autotune.source.program import Program
from autotune.source.script import last_name

_NUMBER = "num_workers"  # as torch calls it
_ROUND_DOWN = frozenset(("int", "floor"))
_ROUND_UP = frozenset(("ceil", "divmod", "array_split"))
_OF_A_BUFFER = re.compile(r"buf|prefetch|queue|cache|memory", re.IGNORECASE)


def shared_out_rounded_down(program: Program) -> str:
    """Where each worker's share is `len(shards) // info.num_workers`, and the rest is nobody's."""
    for script, function in program.functions():
        share = next(_shares(function), None) if _asks(function) else None
        if share is not None and function.name != "__len__" and not _has_rest(function):
            return script.at(share)
    return ""


def _asks(function: ast.AST) -> bool:
    """Whether it asks torch which worker it runs in."""
    calls = (at.func for at in ast.walk(function) if isinstance(at, ast.Call))
    return "get_worker_info" in map(last_name, calls)


def _shares(function: ast.AST) -> Iterator[ast.expr]:
    numbers = _numbers(function)
    for node in ast.walk(function):
        match node:
            case ast.BinOp(left=ast.UnaryOp()):  # `-(-n // workers)`
                continue
            case ast.BinOp(left=ast.BinOp(op=ast.Mult())):  # `(id + 1) * n // workers`: to the end
                continue
            case ast.BinOp(left=of) if _OF_A_BUFFER.search(ast.unparse(of)):  # no samples
                continue
            case ast.BinOp(op=ast.FloorDiv(), right=by) if last_name(by) in numbers:
                yield node
            case ast.Call(func=called, args=[ast.BinOp(op=ast.Div(), right=by)]) if (
                last_name(called) in _ROUND_DOWN and last_name(_number(by)) in numbers
            ):
                yield node


def _number(by: ast.expr) -> ast.expr:
    """`workers` of `float(workers)`."""
    match by:
        case ast.Call(func=ast.Name(id="float" | "int"), args=[number]):
            return number
    return by


def _has_rest(function: ast.AST) -> bool:
    """Whether it rounds up, takes a remainder, or asks which worker is the last."""
    numbers = _numbers(function)
    for node in ast.walk(function):
        match node:
            case ast.BinOp(op=ast.Mod(), right=by) if last_name(by) in numbers:
                return True
            case ast.BinOp(left=number, op=ast.Sub(), right=ast.Constant(value=1)) if last_name(
                number
            ) in numbers or _adds(number, numbers):
                return True
            case ast.BinOp(op=ast.Sub(), right=ast.BinOp(left=one, op=ast.Mult(), right=by)) if (
                not numbers.isdisjoint((last_name(one), last_name(by)))  # `n - share * workers`
            ):
                return True
            case ast.Call(func=called) if last_name(called) in _ROUND_UP:
                return True
    return False


def _adds(node: ast.expr, numbers: set[str]) -> bool:
    """Whether it is `n + workers`."""
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(last_name(each) in numbers for each in parts)


def _numbers(function: ast.AST) -> set[str]:
    """The names that the number of workers has there."""
    found = {_NUMBER}
    for target, value in (pair for at in ast.walk(function) for pair in given_values(at)):
        if last_name(value) in found and (name := last_name(target)):
            found.add(name)
    return found
