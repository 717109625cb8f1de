"""A patch between two states of a source tree, as `git apply` and `patch -p1` take it."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from autotune.errors import PatchError

_NO_LINE_END = "\\ No newline at end of file\n"
_NOWHERE = "/dev/null"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_SIDES = {" ": (0, 1), "-": (0,), "+": (1,)}  # the sides of a patch that a line is on, by its mark
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """The lines `old`, from `line` on (counted from 0), give way to `new`, from `new_line` on."""

    line: int
    new_line: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """What happens to one file; "" is the name of a file that is not there, before or after."""

    before: str
    after: str
    hunks: tuple[Hunk, ...]

    def reversed(self) -> "FilePatch":
        """The same, taken back."""
        return FilePatch(
            before=self.after,
            after=self.before,
            hunks=tuple(
                Hunk(line=each.new_line, new_line=each.line, old=each.new, new=each.old)
                for each in self.hunks
            ),
        )

    def new_line(self, line: int) -> int:
        """Where `line` of the file before is after (from 0); of a changed one, the most alike."""
        moved = 0
        for hunk in self.hunks:
            if line < hunk.line:
                break
            if line < hunk.line + len(hunk.old):
                return hunk.new_line + _nearest(hunk, line - hunk.line)
            moved = hunk.new_line + len(hunk.new) - hunk.line - len(hunk.old)
        return line + moved


def _nearest(hunk: Hunk, at: int) -> int:
    """Which of the new lines is the old one at `at`, or most like it."""
    parts = difflib.SequenceMatcher(None, hunk.old, hunk.new, autojunk=False).get_opcodes()
    what, start, _, first, end = next(part for part in parts if at < part[2])
    if what == "equal":
        return first + at - start

    def likeness(new: int) -> float:
        return difflib.SequenceMatcher(None, hunk.old[at], hunk.new[new]).ratio()

    return max(range(first, end), key=likeness, default=first)


def unified_patch(before: Mapping[str, str], after: Mapping[str, str], root: str) -> str:
    """The patch, to be applied in `root`, that makes `after` of `before`; "" where they are equal.

    Args:
        before: absolute path -> text with its own line ends.
        after: the same; a path that is only here becomes a new file.
        root: absolute path of the folder that the patch's paths start from.

    Raises:
        PatchError: a changed file lies outside `root`.
    """
    changed = [path for path in after if before.get(path) != after[path]]
    return "".join(_file_patch(path, before.get(path), after[path], root) for path in changed)


def _file_patch(path: str, old: str | None, new: str, root: str) -> str:
    name = PurePath(os.path.relpath(path, root)).as_posix()
    if name.startswith("../"):
        advice = "Give the folder that holds all changed files."
        raise PatchError(f"{path} lies outside {root}", advice)
    before, after = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    end = "\t" if " " in name else ""  # as git does, so that `patch` reads the whole name
    header = f"diff --git {before} {after}\n"
    if old is None:
        header += "new file mode 100644\n"
    source, made = _NOWHERE if old is None else before + end, after + end
    lines = difflib.unified_diff(_lines(old or ""), _lines(new), source, made, n=3)
    return header + "".join(
        line if line.endswith("\n") else f"{line}\n{_NO_LINE_END}" for line in lines
    )


def _lines(text: str) -> list[str]:
    """The lines as a patch counts them: a carriage return is part of its line."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def parse_patch(text: str) -> list[FilePatch]:
    """The files of a unified diff.

    Raises:
        ValueError: it is none.
    """
    lines = text.split("\n")
    found: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if not lines[at].startswith("--- "):
            at += 1
            continue
        before, after = _named(lines[at], "--- ", "a/"), _named(lines[at + 1], "+++ ", "b/")
        hunks: list[Hunk] = []
        at += 2
        while match := _HUNK.match(lines[at]):
            hunk, at = _read_hunk(lines, at + 1, match)
            hunks.append(hunk)
        found.append(FilePatch(before=before, after=after, hunks=tuple(hunks)))
    if not any(each.hunks for each in found):
        raise ValueError("it changes nothing")
    return found


def _named(line: str, mark: str, side: str) -> str:
    """The path that a line names after its `mark`, without its `side`; "" where it is none."""
    path = _unquoted(line.removeprefix(mark).split("\t", maxsplit=1)[0])
    if path == _NOWHERE:
        return ""
    if not line.startswith(mark) or not path.startswith(side):
        raise ValueError(f"no file is named in {line!r}")
    return path.removeprefix(side)


def _quoted(path: str) -> str:
    """A path as git writes one whose characters would end its line, or its quotes."""
    escaped = re.sub(
        r'[\x00-\x1f\x7f"\\]',
        lambda found: _ESCAPES.get(found[0]) or f"\\{ord(found[0]):03o}",
        path,
    )
    return path if escaped == path else f'"{escaped}"'


def _unquoted(path: str) -> str:
    if not path.startswith('"'):
        return path
    plain = {escaped: character for character, escaped in _ESCAPES.items()}
    return re.sub(
        r"\\(?:[0-7]{3}|.)",
        lambda found: plain.get(found[0]) or chr(int(found[0][1:], base=8)),
        path[1:].removesuffix('"'),
    )


def _read_hunk(lines: list[str], at: int, head: re.Match[str]) -> tuple[Hunk, int]:
    """The hunk whose lines begin at `at`, and where what follows it begins."""
    line, new_line = int(head[1]), int(head[3])
    missing = [1 if head[2] is None else int(head[2]), 1 if head[4] is None else int(head[4])]
    sides: tuple[list[str], list[str]] = ([], [])
    counts = tuple(missing)
    while any(missing) or lines[at].startswith("\\"):
        mark, rest = lines[at][:1], lines[at][1:]
        if mark == "\\":  # "No newline at end of file", said of the line above
            for side in _SIDES[lines[at - 1][:1]]:
                sides[side][-1] = sides[side][-1].removesuffix("\n")
        else:
            if mark not in _SIDES:
                raise ValueError(f"{lines[at]!r} is no line of a patch")
            for side in _SIDES[mark]:
                sides[side].append(f"{rest}\n")
                missing[side] -= 1
        at += 1
    hunk = Hunk(
        line=line - (counts[0] > 0),  # of no lines, it names the one before them
        new_line=new_line - (counts[1] > 0),
        old=tuple(sides[0]),
        new=tuple(sides[1]),
    )
    return hunk, at
