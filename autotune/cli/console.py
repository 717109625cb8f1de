"""The terminal: paragraphs, aligned rows, bars and one live line; the only importer of rich.

In a terminal text is wrapped to its width. Elsewhere (a pipe, a file) every paragraph and every row
is one plain line, unless COLUMNS asks for a width.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.live import Live
from rich.text import Text

from autotune.cli import UNREAD

# A text in a tone; plain where it is a string alone. A line is one or several of them.
Piece = str | tuple[str, str]
Line = Piece | list[Piece]

# Of the sixteen colours that every terminal lets its user choose, so that light and dark both work.
_TONES = {
    "plain": "",
    "strong": "bold",
    "quiet": "dim",
    "good": "green",
    "banner": "bold green",
    "warn": "yellow",
    "bad": "red",
    "accent": "cyan",
}
_WIDEST = 96  # columns of running text that the eye still follows
_UNWRAPPED = 10_000
_ROOM = 26  # columns that the last cell of a row needs beside the others; below them otherwise
_LEAST = 12  # columns to write in, however narrow the terminal
_BAR = 30
_REFRESHES_PER_SECOND = 2  # the machine is being measured: rendering must cost it nothing

_CODES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_PLAINER = str.maketrans({"×": "x", "→": ">", "·": "-", "—": "-", "━": "=", "╸": "-", "─": "."})


class _Printer(RichConsole):
    def on_broken_pipe(self) -> None:
        """End quietly; by itself Rich exits with 1, as if the user's program had failed."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise SystemExit(UNREAD)


class Console:
    """Where words are shown; a run's progress and its answer go to the same one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._rich = _Printer(
            file=stream or sys.stdout, highlight=False, markup=False, force_jupyter=False
        )
        wrapped = self._rich.is_terminal or os.environ.get("COLUMNS", "").isdigit()
        self.width = min(self._rich.width, _WIDEST) if wrapped else _UNWRAPPED
        self.is_live = self._rich.is_terminal and not self._rich.is_dumb_terminal
        self._has_unicode = self._rich.encoding.lower().startswith("utf")

    def say(self, line: Line, *, indent: int = 0, hang: int = 0) -> None:
        """A paragraph, its first line indented by `indent`, the others by `hang` more."""
        self._show(Text(" " * indent), self._text(line), indent + hang)

    def command(self, text: str) -> None:
        """A command to copy: never cut, however long."""
        self._rich.print(Text(f"  {self._clean(text)}", _TONES["accent"]), soft_wrap=True)

    def gap(self) -> None:
        """An empty line."""
        self._rich.print()

    def heading(self, text: str, note: str = "") -> None:
        """What the rows below are, after an empty line."""
        self.gap()
        self.say([(text, "strong"), (f"  {note}" if note else "", "quiet")])

    def rows(self, rows: Sequence[Sequence[Line]], *, indent: int = 2, right: str = "") -> None:
        """Rows in columns.

        The last cell takes the room that is left, below the others where that is too little.

        Args:
            rows: of one length each; the last cell may be long.
            indent: columns to the left of the first.
            right: the columns set flush right, by their digits ("13" is the second and the fourth).
        """
        cells = [[self._text(cell) for cell in row] for row in rows]
        widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)][:-1]
        for row in cells:
            self._row(row, widths, indent, right)

    def bars(self, rows: Sequence[tuple[str, float, str, str]]) -> None:
        """A label, a share from 0 to 1 drawn in a tone, and what it says, one below the other."""
        label_width = max(cell_len(label) for label, *_ in rows)
        text_width = max(cell_len(text) for *_, text in rows)
        size = max(4, min(_BAR, self.width - label_width - text_width - 6))
        self.rows(
            [[label, [(self._bar(share, size), tone)], text] for label, share, tone, text in rows]
        )

    def progress_bar(self, share: float, size: int) -> list[Piece]:
        """A thin bar of `size` columns, `share` of it filled."""
        filled = round(min(max(share, 0.0), 1.0) * size)
        return [("━" * filled, "accent"), ("─" * (size - filled), "quiet")]

    @contextmanager
    def live(self, line: Callable[[], Line]) -> Iterator[None]:
        """One line, kept up to date below what is said meanwhile; none without a terminal."""
        if not self.is_live:
            yield
            return

        def render() -> Text:
            return self._cut(self._text(line()), self.width - 1)

        with Live(
            get_renderable=render,
            console=self._rich,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield

    def _cut(self, text: Text, room: int) -> Text:
        """As many whole words of `text` as there is room for."""
        if text.cell_len > room:
            more = "…" if self._has_unicode else "..."
            text.truncate(room + 1 - cell_len(more))
            text.plain = text.plain.rpartition(" ")[0].rstrip(" ,:") + more
        return text

    def _row(self, row: list[Text], widths: list[int], indent: int, right: str) -> None:
        start = Text(" " * indent)
        for column, (cell, width) in enumerate(zip(row, widths, strict=False)):
            room = Text(" " * (width - cell.cell_len))
            start += room + cell if str(column) in right else cell + room
            start.append("  ")
        left = self.width - start.cell_len
        if row[-1].cell_len <= left or left >= _ROOM:
            self._show(start, row[-1], start.cell_len)
        else:
            self._show(Text(), start, indent + 2)
            self._show(Text(" " * (indent + 2)), row[-1], indent + 2)

    def _bar(self, share: float, size: int) -> str:
        """Thin, so that bars below each other stay apart; never nothing for a share above zero."""
        halves = round(min(max(share, 0.0), 1.0) * size * 2)
        halves = max(halves, 1) if share > 0 else 0
        return "━" * (halves // 2) + "╸" * (halves % 2)

    def _show(self, prefix: Text, text: Text, others: int) -> None:
        """`text` after `prefix`, in lines that fit; those that follow hang at column `others`."""
        room = max(self.width - max(prefix.cell_len, others), _LEAST)
        for line in text.wrap(self._rich, room) if text else [Text()]:
            shown = prefix + line
            shown.rstrip()
            self._rich.print(shown, soft_wrap=True)
            prefix = Text(" " * others)

    def _text(self, line: Line) -> Text:
        text = Text()
        for piece in line if isinstance(line, list) else [line]:
            words, tone = (piece, "plain") if isinstance(piece, str) else piece
            text.append(self._clean(words), _TONES[tone])
        return text

    def _clean(self, words: str) -> str:
        """`words` without what moves the cursor or colours the screen: not all are our own."""
        shown = _CODES.sub("", words).expandtabs(4)
        shown = "".join(each for each in shown if each.isprintable() or each == "\n")
        return shown if self._has_unicode else shown.translate(_PLAINER)
