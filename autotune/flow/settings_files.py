"""The files of settings that a program's text names: as they stand, with a part that is only known
in a run (`f"configs/{name}.yaml"`), or by their folder (Hydra's `config_path`).
"""

import ast
import glob
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from autotune.source.script import last_name

# Such a file counts by its text, unless it is data rather than settings.
MOST_SETTINGS_BYTES = 1 << 20
_SETTINGS = (
    *(".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env"),
    *(".py", ".gin", ".jsonnet", ".xml"),
)
_FOLDERS = ("config_path", "config_dir")  # arguments of `hydra.main`, `initialize_config_dir`
_MOST_FILES = 200  # of one pattern, with those that they name: more are data
# What a file of settings calls others that it goes on from (`_base_: ../base.yaml`).
_NAMED = re.compile(rf"(?<![\w./-])[\w./-]+(?:{'|'.join(map(re.escape, _SETTINGS))})\b")
_WRITING = re.compile("[wax][bt+]*")  # modes of `open`
_ANY = "*"


def settings_named(tree: ast.AST, folders: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Those that a module names, from one of `folders` on, and that these name: each with its
    hash.
    """
    for pattern in dict.fromkeys(_patterns(tree)):
        for folder in folders:
            known: set[str] = set()
            with suppress(OSError, ValueError):
                found = glob.iglob(os.path.join(glob.escape(str(folder)), pattern), recursive=True)
                settings = (each for each in found if each.endswith(_SETTINGS))
                for name in sorted(islice(settings, _MOST_FILES)):
                    yield from _with_its_own(Path(name), known)


def settings_hash(named: Path) -> str:
    """The hash of a file that may hold settings; "" where there is none, or it is data."""
    return hashlib.sha256(text).hexdigest() if (text := _text(named)) is not None else ""


def _text(named: Path) -> bytes | None:
    with suppress(OSError, ValueError):
        if named.is_file() and named.stat().st_size <= MOST_SETTINGS_BYTES:
            return named.read_bytes()
    return None


def _with_its_own(named: Path, known: set[str]) -> Iterator[tuple[str, str]]:
    """A file, and those that it names itself, one by the other."""
    path = os.path.normpath(named)
    new = path.endswith(_SETTINGS) and path not in known and len(known) < _MOST_FILES
    text = _text(named) if new else None
    if text is None:
        return
    known.add(path)
    yield path, hashlib.sha256(text).hexdigest()
    for each in _NAMED.findall(text.decode(errors="replace")):
        yield from _with_its_own(named.parent / each, known)


def _patterns(tree: ast.AST) -> Iterator[str]:
    """What `glob` finds them by."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and _writes(node):
            continue
        if isinstance(node, ast.Call) and last_name(node.func) in ("write_text", "write_bytes"):
            waiting += node.args  # but not the file
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.keyword) and node.arg in _FOLDERS:
            if (folder := _pattern(node.value)).strip("*/."):
                yield os.path.join(folder, "**", _ANY)
        elif isinstance(node, ast.expr):
            # A folder that is only known in a run may be the program's own: `root / "a.yaml"`.
            pattern = _pattern(node).removeprefix(f"{_ANY}/")
            folder = os.path.dirname(pattern)
            if pattern.endswith(_SETTINGS) and _ANY not in (folder or pattern):
                yield pattern


def _writes(call: ast.Call) -> bool:
    """Whether it opens a file to be written: `open(f"runs/{name}.json", "w")`, or
    `Path("runs/a.json").open(mode="w")`.
    """
    modes = [*call.args[:2], *(each.value for each in call.keywords if each.arg == "mode")]
    texts = [each.value for each in modes if isinstance(each, ast.Constant)]
    return last_name(call.func) == "open" and any(
        isinstance(each, str) and _WRITING.fullmatch(each) for each in texts
    )


def _pattern(node: ast.expr) -> str:
    """The text that an expression gives, `*` where it is only known in a run."""
    match node:
        case ast.Constant(value=str() as text):
            return glob.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(map(_pattern, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(left) + _pattern(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"{_pattern(left)}/{_pattern(right)}"
        case ast.Call(
            func=ast.Name(id="Path" | "join") | ast.Attribute(attr="Path" | "join"),
            args=[_, *_] as parts,
        ):
            return "/".join(map(_pattern, parts))
    return _ANY
