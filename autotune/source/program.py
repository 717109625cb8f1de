"""The program under change: its files and its places, which move along with every change."""

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from autotune.source.edits import Place, Places
from autotune.source.script import NEWLINE, Function, Script, covers

BYTE_ORDER_MARK = "\ufeff"


class Refusal(Exception):
    """An edit that is not made: `reason` in plain words, `hand_step` for a person to make it."""

    def __init__(self, reason: str, hand_step: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hand_step = hand_step


class Forbidden(Refusal):
    """A refusal that holds at run time too: what it would break lies where no trial may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`text` instead of what lies from offset `start` to `end` of a file; changes never overlap."""

    path: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The files of the program that could be parsed, its main script, and the places seen in it."""

    scripts: Mapping[str, Script]
    main: str
    places: Places
    broken: Mapping[str, str]  # path -> why it could not be parsed
    fixed: frozenset[str] = frozenset()  # paths of those that are only to be read

    def nodes(self) -> Iterator[tuple[Script, ast.AST]]:
        """All that stands in the files, each with its file."""
        return ((script, node) for script in self.scripts.values() for node in script.nodes)

    def calls(self) -> Iterator[tuple[Script, ast.Call]]:
        """The calls in the files."""
        return ((script, call) for script in self.scripts.values() for call in script.calls)

    def classes(self) -> Iterator[tuple[Script, ast.ClassDef]]:
        """The classes that the files define."""
        return ((script, at) for script, at in self.nodes() if isinstance(at, ast.ClassDef))

    def methods(self) -> Iterator[Function]:
        """The methods of these."""
        return (at for _, kind in self.classes() for at in kind.body if isinstance(at, Function))

    def functions(self) -> Iterator[tuple[Script, Function]]:
        """The functions and methods that the files define."""
        return ((script, at) for script, at in self.nodes() if isinstance(at, Function))

    def changed(self, changes: Iterable[Change]) -> "Program":
        """This program with `changes` made and its places moved along.

        Raises:
            Refusal: a changed file would no longer be Python, or is only to be read.
        """
        by_path: dict[str, list[Change]] = {}
        for change in changes:
            by_path.setdefault(change.path, []).append(change)
        if not by_path:
            return self
        if linked := next((path for path in by_path if path in self.fixed), ""):
            raise Refusal(f"{linked} lies outside the project's own files, or is a link to there")
        ordered = {path: sorted(some, key=lambda c: c.start) for path, some in by_path.items()}
        scripts = dict(self.scripts)
        for path, some in ordered.items():
            text = _changed_text(scripts[path].text, some)
            try:
                scripts[path] = Script(path, text)
                scripts[path].compile()
            except SyntaxError as error:
                raise Refusal(f"the edit would leave {path} broken: {error.msg}") from error
        places = _moved_places(self.places, self.scripts, scripts, ordered)
        return replace(self, scripts=scripts, places=places)

    def at(self, place: Place | None, what: str, code: str) -> tuple[Script, int]:
        """The file and line of `place`.

        Args:
            place: one of `places`.
            what: what is there, for the reason of a refusal ("the DataLoader").
            code: what a person would write there.

        Raises:
            Refusal: the place was not seen, or lies outside the project.
        """
        if place is None:
            raise Refusal(f"{what} was not seen in the program's own code", code)
        hand_step = f"{place.path}:{place.line}: {code}"
        if place.path in self.broken:
            raise Refusal(f"{place.path} cannot be parsed: {self.broken[place.path]}", hand_step)
        if place.path not in self.scripts:
            raise Refusal(f"{what} is in {place.path}, outside the project's own files", hand_step)
        return self.scripts[place.path], place.line


def replacing(script: Script, node: ast.expr | ast.stmt, text: str) -> Change:
    """`text` instead of `node`."""
    return Change(path=script.path, start=script.start(node), end=script.end(node), text=text)


def wrapping(script: Script, node: ast.expr, before: str, after: str) -> list[Change]:
    """`before` and `after` round `node`."""
    places = ((script.start(node), before), (script.end(node), after))
    return [Change(path=script.path, start=at, end=at, text=text) for at, text in places]


def holds(script: Script, node: ast.expr | ast.stmt, places: Iterable[Place | None]) -> bool:
    """Whether one of `places` is on the lines of `node`."""
    return any(at is not None and at.path == script.path and covers(node, at.line) for at in places)


def first_of(found: Iterable[tuple[Script, ast.AST]]) -> str:
    """File and line of the first that was `found`, "" of none."""
    return next((script.at(node) for script, node in found), "")


def parsed(sources: Mapping[str, str], places: Places, main: str) -> Program:
    """The program of `sources` (texts by absolute path), of which `main` is the main script."""
    scripts: dict[str, Script] = {}
    broken: dict[str, str] = {}
    for path, text in sources.items():
        try:
            scripts[path] = _script(path, text.removeprefix(BYTE_ORDER_MARK))
        except SyntaxError as error:
            broken[path] = f"{error.msg} (line {error.lineno})"
    return Program(scripts=scripts, main=main, places=places, broken=broken)


@functools.lru_cache(maxsize=1024)
def _script(path: str, text: str) -> Script:
    """A program is read again for each edit that is asked about; a Script does not change."""
    return Script(path, text)


def minimal_change(path: str, start: int, old: str, new: str) -> list[Change]:
    """The change from `old`, at offset `start`, to `new`, without what both begin and end with."""
    if old == new:
        return []
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    end = start + len(old) - tail
    return [Change(path=path, start=start + head, end=end, text=new[head : len(new) - tail])]


def _changed_text(text: str, changes: list[Change]) -> str:
    parts: list[str] = []
    at = 0
    for change in changes:
        assert at <= change.start <= change.end, "changes overlap"
        parts += [text[at : change.start], change.text]
        at = change.end
    return "".join([*parts, text[at:]])


def _moved_places(
    places: Places,
    old: Mapping[str, Script],
    new: Mapping[str, Script],
    changes: Mapping[str, list[Change]],
) -> Places:
    def moved(place: Place) -> Place:
        if place.path not in changes:
            return place
        script = old[place.path]
        line = script.line_text(place.line)
        offset = script.line_start(place.line) + len(line) - len(line.lstrip())
        if place.column is not None:
            offset = script.offset(place.line, place.column)
        after = _moved_offset(script.text, offset, changes[place.path])
        text = new[place.path].text[:after]
        number = 1 + len(NEWLINE.findall(text))
        if place.column is None:
            return replace(place, line=number)
        column = len(text[new[place.path].line_start(number) :].encode())
        return replace(place, line=number, column=column)

    values: dict[str, Place | tuple[Place, ...] | None] = {}
    for field in fields(places):
        value = getattr(places, field.name)
        if isinstance(value, Place):
            values[field.name] = moved(value)
        elif isinstance(value, tuple):
            values[field.name] = tuple(moved(place) for place in value)
    return replace(places, **values)  # type: ignore[arg-type]


def _moved_offset(text: str, offset: int, changes: list[Change]) -> int:
    """Where `offset` of `text` lies after `changes`; inside a changed part it keeps its line."""
    shift = 0
    for change in changes:
        if change.end <= offset:
            shift += len(change.text) - (change.end - change.start)
            continue
        if change.start < offset:
            lines = len(NEWLINE.findall(text[change.start : offset]))
            ends = [match.end() for match in NEWLINE.finditer(change.text)]
            kept = ends[min(lines, len(ends)) - 1] if lines and ends else 0
            return change.start + shift + kept
        break
    return offset + shift
