"""Which blocks of a program's text its run comes to: each marks itself as it begins, in memory that
the run's workers share.
"""

import ast
import builtins
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.source.blocks import Block, blocks
from autotune.source.edits import Place
from autotune.source.script import parse
from autotune.workload.conversation import Command, Conversation, Ended, Ready, Report
from autotune.workload.window import Window

_NAME = "__autotune_came_to__"  # a builtin of a run that is looked at so
_MOST = 1 << 16  # blocks; of a program that has more, the rest is not marked


class Marks:
    """Of a program with these `texts` by path, whose `code` is run in their place.

    It marks what runs before `begin_training`, and what does after.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._blocks: list[tuple[Place, Block]] = []
        self._came = mmap.mmap(-1, _MOST)
        self._before = bytes(_MOST)
        self.code = {path: self._marked(path, text) for path, text in texts.items()}
        setattr(builtins, _NAME, self._came)

    def _marked(self, path: str, text: str) -> ast.Module:
        tree = parse(text)
        marks: dict[ast.stmt, ast.stmt] = {}
        for block in blocks(tree):
            if len(self._blocks) < _MOST:
                first = block.statements[0]
                marks[first] = _mark(len(self._blocks), first)
                self._blocks.append((Place(path=path, line=block.line), block))
        for node in ast.walk(tree):
            for name, part in ast.iter_fields(node):
                if isinstance(part, list) and not marks.keys().isdisjoint(part):
                    setattr(node, name, [*_with_marks(part, marks)])
        return tree

    def begin_training(self) -> None:
        """What came before was the program's start."""
        self._before = self._came[:]
        self._came[:] = bytes(_MOST)

    def not_come_to(self) -> tuple[Place, ...]:
        """Where blocks begin that it has not come to, though since its first step it has come to
        the block that the condition on them stands in.
        """
        numbers = {block: number for number, (_, block) in enumerate(self._blocks)}
        return tuple(
            place
            for number, (place, block) in enumerate(self._blocks)
            if block.test is not None
            and not (self._came[number] or self._before[number])
            and block.within is not None
            and self._came[numbers[block.within]]
        )


def _mark(number: int, first: ast.stmt) -> ast.stmt:
    """What is run in the place where `first` begins: it costs some tens of nanoseconds."""
    (mark,) = ast.parse(f"{_NAME}[{number}] = 1").body
    for node in ast.walk(mark):
        ast.copy_location(node, first)
    return mark


def _with_marks(block: list[ast.stmt], marks: Mapping[ast.stmt, ast.stmt]) -> Iterator[ast.stmt]:
    for statement in block:
        own = [marks[statement]] if statement in marks else []
        match statement:
            case ast.Expr(value=ast.Constant(value=str())):  # what a function says of itself
                yield from (statement, *own)
            case _:
                yield from (*own, statement)


class Marking:
    """A conversation of which each window tells what was not come to."""

    def __init__(self, conversation: Conversation, marks: Marks) -> None:
        self._conversation = conversation
        self._marks = marks

    def say(self, report: Report) -> None:
        """See `Conversation`."""
        if isinstance(report, Ready):
            self._marks.begin_training()
        if isinstance(report, Window):
            report = self._told(report)
        elif isinstance(report, Ended) and report.window:
            report = replace(report, window=self._told(report.window))
        self._conversation.say(report)

    def ask(self) -> Command:
        """See `Conversation`."""
        return self._conversation.ask()

    def _told(self, window: Window) -> Window:
        return replace(window, not_come_to=self._marks.not_come_to())
