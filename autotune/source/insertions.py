"""New lines in a file: statements before and after others, imports, blocks moved one level in.

Lines are given with four spaces a level, and written with what the file itself has for one.
"""

import ast
import io
import os
import sys
import textwrap
import tokenize
from dataclasses import dataclass

from autotune.source.meanings import imported_names
from autotune.source.program import Change, Refusal
from autotune.source.script import Script, first_line, module_level, parse

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.While
_INDENT = "    "  # of lines as they are given, and where the file itself shows none
_END = sys.maxsize  # behind every line


def before(script: Script, statement: ast.stmt, lines: list[str]) -> Change:
    """`lines` as statements right before `statement`, at its level; it must begin its line."""
    at = script.line_start(first_line(statement))
    return _inserted(script, at, statement, lines)


def at_top(script: Script, loop: ast.For, lines: list[str]) -> Change:
    """`lines` as the first statements of `loop`, before the comments of those that it has."""
    first = loop.body[0]
    line = first_line(first)
    top = loop.iter.end_lineno or 0
    while line - 1 > top and script.line_text(line - 1).strip()[:1] in ("", "#"):
        line -= 1
    return _inserted(script, script.line_start(line), first, lines)


def after(script: Script, statement: ast.stmt, lines: list[str]) -> Change:
    """`lines` as statements right after `statement`, at its level; it must end its line."""
    return after_line(script, script.last_line(statement), lines, statement)


def after_line(
    script: Script, line: int, lines: list[str], beside: ast.stmt | None = None
) -> Change:
    """`lines` after `line` (from 1; 0 is before the first), at the level of the one `beside`."""
    at = script.line_start(line + 1)
    text = script.text[:at]
    cut_off = bool(text) and not text.endswith(("\n", "\r"))  # the file's last line has no end
    change = _inserted(script, at, beside, lines)
    if not cut_off:
        return change
    bare = script.newline + change.text.removesuffix(script.newline)
    return Change(path=script.path, start=at, end=at, text=bare)


def _inserted(script: Script, at: int, beside: ast.stmt | None, lines: list[str]) -> Change:
    indent = script.indent(beside) if beside is not None else ""
    unit = indent_unit(script, beside)
    written = [indent + _with_indent(line, unit) if line else "" for line in lines]
    text = "".join(line + script.newline for line in written)
    return Change(path=script.path, start=at, end=at, text=text)


def _with_indent(line: str, unit: str) -> str:
    """`line` with `unit` for each level that it lies in."""
    code = line.lstrip(" ")
    levels, rest = divmod(len(line) - len(code), len(_INDENT))
    return unit * levels + " " * rest + code


def indent_unit(script: Script, statement: ast.stmt | None = None) -> str:
    """What one more level adds before a line, as seen round `statement` or else in the file."""
    around = [statement, *script.ancestors(statement)] if statement is not None else []
    nodes = [*around, *script.nodes]
    for inner in (at for at in nodes if isinstance(at, ast.stmt)):
        outer = next((at for at in script.ancestors(inner) if isinstance(at, ast.stmt)), None)
        if outer is None or not script.owns_its_lines(inner):
            continue
        unit = script.indent(inner).removeprefix(script.indent(outer))
        if unit and script.indent(inner) != script.indent(outer):
            return unit
    return _INDENT


def indented(script: Script, first: ast.stmt, last: ast.stmt, unit: str) -> list[Change]:
    """The lines from `first` to `last` one level in; what lies inside a string keeps its bytes."""
    inside = _lines_inside_strings(script)
    lines = range(first_line(first), script.last_line(last) + 1)
    starts = [
        script.line_start(line)
        for line in lines
        if line not in inside and script.line_text(line).strip()
    ]
    return [Change(path=script.path, start=at, end=at, text=unit) for at in starts]


def under(script: Script, first: ast.stmt, last: ast.stmt, header: str) -> list[Change]:
    """The statements from `first` to `last`, siblings, as the body of `header` (`if ready:`)."""
    unit = indent_unit(script, first)
    return [before(script, first, [header]), *indented(script, first, last, unit)]


def _lines_inside_strings(script: Script) -> set[int]:
    """The lines that begin inside a string."""
    inside: set[int] = set()
    opened: list[int] = []
    source = io.StringIO(script.text, newline="")
    for token in tokenize.generate_tokens(source.readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        elif kind in ("FSTRING_START", "TSTRING_START"):  # Python 3.12 and 3.14
            opened.append(token.start[0])
        elif kind in ("FSTRING_END", "TSTRING_END"):
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
    return inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """Code with the file's own name for torch, and the import that it needs if there is none."""

    code: str
    imports: list[str]

    @property
    def lines(self) -> list[str]:
        """The code's lines."""
        return self.code.splitlines()


def snippet(script: Script, code: str) -> Snippet:
    """`code`, written with the name `torch`, for use anywhere in `script`."""
    code = textwrap.dedent(code).strip()
    names = [at for at in ast.walk(parse(code)) if isinstance(at, ast.Name) and at.id == "torch"]
    if not names:
        return Snippet(code=code, imports=[])
    own_name = script.torch_name()
    if own_name is None:
        return Snippet(code=code, imports=["import torch"])
    inner = Script("", code)
    for name in sorted(names, key=lambda at: (at.lineno, at.col_offset), reverse=True):
        start = inner.start(name)
        code = code[:start] + own_name + code[start + len("torch") :]
    return Snippet(code=code, imports=[])


def imports_added(script: Script, imports: list[str], *, until: int = _END) -> list[Change]:
    """What adds those of the statements `imports` that bind what the file's own imports do not,
    above the line `until`, which needs them.

    Raises:
        Refusal: the file uses such a name for something else.
    """
    have = imported_names(module_level(script.tree))
    missing = []
    for statement in dict.fromkeys(imports):
        if statement == "import torch" and script.torch_name():
            continue
        wanted = imported_names(ast.walk(parse(statement)))
        new = [name for name, meaning in wanted.items() if have.get(name) != meaning]
        for name in new:
            if name in have or name in script.own_names():
                raise Refusal(
                    f"{os.path.basename(script.path)} uses the name {name} for something else",
                    f"{script.path}:{import_line(script, until) + 1}: {statement}, under another "
                    "name",
                )
        if new:
            missing.append(statement)
    return [after_line(script, import_line(script, until), missing)] if missing else []


def after_imports(script: Script, lines: list[str], *, until: int = _END) -> Change:
    """`lines` as statements after the file's imports above `until`, set off by blank lines."""
    line = import_line(script, until)
    above = [""] if line else []
    below = [""] if script.line_text(line + 1).strip() else []
    return after_line(script, line, [*above, *lines, *below])


def defined_after_imports(script: Script, lines: list[str], *, until: int = _END) -> Change:
    """A definition's `lines` after the imports above `until`, two blank lines before and behind."""
    line = import_line(script, until)
    own = next((n for n in range(2) if script.line_text(line + 1 + n).strip()), 2)
    return after_line(script, line, [*(["", ""] if line else []), *lines, *[""] * (2 - own)])


def import_line(script: Script, until: int = _END) -> int:
    """The last line of the file's imports: of those at its top above the line `until`, and of the
    one that binds torch.

    Imports inside a top-level `try` or `if` count with the whole of it. Without any it is the
    docstring's line, or the one before the first statement.
    """
    line = 0
    above = [at for at in script.tree.body if script.last_line(at) < until]
    for statement in above:
        if isinstance(statement, _DEFINITIONS) and line:
            break
        if _imports(statement):
            line = script.last_line(statement)
    for statement in script.tree.body:
        if "torch" in _imports(statement).values():
            return max(line, script.last_line(statement))
    if not line and ast.get_docstring(script.tree) is not None:
        line = script.last_line(script.tree.body[0])
    if not line and script.tree.body:
        line = first_line(script.tree.body[0]) - 1
    return line


def _imports(statement: ast.stmt) -> dict[str, str]:
    return imported_names(module_level(ast.Module(body=[statement], type_ignores=[])))
