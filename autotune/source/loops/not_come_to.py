"""What of a training's text a run did not come to, in words."""

import ast
import os
from collections.abc import Collection, Iterable, Iterator, Sequence

from autotune.source.blocks import Block, blocks
from autotune.source.edits import Place
from autotune.source.loops.around_training import running_in_training
from autotune.source.loops.counters import SAYING
from autotune.source.loops.settled import is_option, settled
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import is_none, last_name

_NAMED = 3
_LONGEST = 60  # code of a condition
# What a condition asks of tensors and of kinds of things: their numbers are not asked for.
_OF_A_KIND = frozenset(
    (
        *("shape", "size", "dim", "ndim", "dtype", "device", "is_cuda", "training"),
        *("isinstance", "hasattr", "is_tensor", "callable", "issubclass"),
    )
)
# What only says something, or ends the training.
_TELLS = SAYING | {"close", "error", "exit", "flush", "warn"}


def not_come_to(program: Program, places: Iterable[Place]) -> list[tuple[str, str]]:
    """The blocks at `places` that the training may yet come to: each one's place and condition."""
    ran = running_in_training(program)
    fixed = settled(program, ran)
    return [
        (f"{os.path.basename(place.path)}:{place.line}", _said(block))
        for place, block in _blocks_at(program, places)
        if block.test in ran and _moves(block.test, fixed)
        if not all(map(_is_trifling, block.statements))
    ]


def in_words(missed: Sequence[tuple[str, str]]) -> str:
    """The first of those that were not come to, each with its condition; "" of none."""
    found = [f"{place} ({condition})" for place, condition in missed]
    more = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f", and {more} more" if more > 0 else "")


def _blocks_at(program: Program, places: Iterable[Place]) -> Iterator[tuple[Place, Block]]:
    known = {
        (path, block.line): block
        for path, script in program.scripts.items()
        for block in blocks(script.tree)
        if block.test is not None
    }
    for place in places:
        if (block := known.get((place.path, place.line))) is not None:
            yield place, block


def _moves(test: ast.expr | None, fixed: Collection[str]) -> bool:
    """Whether what `test` asks for may come out otherwise later, or a part of it."""
    match test:
        case None:
            return False
        case ast.BoolOp(values=values):
            return any(_moves(each, fixed) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _moves(operand, fixed)
    parts = [at for at in ast.walk(test) if isinstance(at, ast.Name | ast.Attribute)]
    if any(map(is_none, ast.walk(test))) or not _OF_A_KIND.isdisjoint(map(last_name, parts)):
        return False
    called = {call.func for call in calls_in(test)}
    apart = called | {at.value for at in parts if isinstance(at, ast.Attribute)}
    asked = (at for at in parts if at not in apart and not is_option(at))
    return bool(called) or any(last_name(at) not in fixed for at in asked)


def _is_trifling(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Raise() | ast.Assert():
            return True
        case ast.Return(value=None | ast.Constant() | ast.Name()):
            return True
        case ast.Expr(value=ast.Call(func=called)):
            return last_name(called) in _TELLS
        case ast.Expr(value=ast.Constant()):
            return True
    return False


def _said(block: Block) -> str:
    assert block.test is not None
    code = ast.unparse(block.test)
    shown = code if len(code) <= _LONGEST else f"{code[: _LONGEST - 1]}…"
    return f"{'under' if block.holds else 'unless'} `{shown}`"
