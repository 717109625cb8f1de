"""The blocks of a program's text, each by the line that it begins in."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.source.script import Function

_HOLDERS = Function | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.match_case
_PARTS = ast.stmt | ast.ExceptHandler | ast.match_case
_LEAVING = ast.Return | ast.Continue | ast.Break | ast.Raise


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Statements that run one after another once the first does.

    Attributes:
        statements: what runs; those within them are theirs.
        test: what decides whether they do; None for a loop's, a function's, and those of a case or
            an `except`, which are blocks for what is within them.
        within: the block that they stand in; None for a function's, and for a module's.
        holds: whether `test` has to hold.
    """

    statements: Sequence[ast.stmt]
    test: ast.expr | None
    within: "Block | None"
    holds: bool = True

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.statements[0].lineno


def blocks(tree: ast.Module) -> Iterator[Block]:
    """All that `tree` has, outer ones first, but for the module's own."""
    for statement in tree.body:
        yield from _inside(statement, None)


def _in_turn(statements: Sequence[ast.stmt], within: Block | None) -> Iterator[Block]:
    """Those in what follows one another; what comes after a condition that leaves it is its own."""
    for number, statement in enumerate(statements):
        yield from _inside(statement, within)
        rest = statements[number + 1 :]
        if not (rest and isinstance(statement, ast.If)):
            continue
        if _is_left(statement.body) or _is_left(statement.orelse):
            within = Block(rest, statement.test, within, holds=not _is_left(statement.body))
            yield within


def _is_left(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVING)


def _inside(node: ast.AST, within: Block | None) -> Iterator[Block]:
    if isinstance(node, ast.If):
        yield from _of_condition(node, within)
    elif isinstance(node, _HOLDERS):
        holder = None if isinstance(node, Function) else within
        for part in (node.body, getattr(node, "orelse", ())):
            yield from _of(part, None, holder)
    else:
        for _, part in ast.iter_fields(node):
            if isinstance(part, list):
                parts: list[Any] = [at for at in part if isinstance(at, _PARTS)]
                yield from _in_turn(parts, within)


def _of_condition(condition: ast.If, within: Block | None) -> Iterator[Block]:
    """Those of a condition, and of each `elif` after it."""
    while True:
        yield from _of(condition.body, condition.test, within)
        match condition.orelse:
            case [ast.If() as other] if other.col_offset == condition.col_offset:
                condition = other
            case other:
                yield from _of(other, condition.test, within, holds=False)
                return


def _of(
    statements: Sequence[ast.stmt],
    test: ast.expr | None,
    within: Block | None,
    *,
    holds: bool = True,
) -> Iterator[Block]:
    if statements:
        block = Block(statements, test, within, holds)
        yield block
        yield from _in_turn(statements, block)
