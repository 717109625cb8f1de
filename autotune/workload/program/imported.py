"""Which of the project's files a program may run: its own, and the modules that these import."""

import ast
import functools
import importlib.util
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeGuard

from autotune.errors import UsageError
from autotune.source.loops.condition import code_in
from autotune.source.program import Program, parsed
from autotune.source.reach import run_with
from autotune.source.script import tree_of
from autotune.workload.program.framework import STANDARD, is_installed
from autotune.workload.program.script import import_root
from autotune.workload.program.target import Target, read_source
from autotune.workload.seen import Seen

# Reading a thousand files for each edit that is asked about would take the time of a search.
MOST_FILES = 200
_LONGEST = 60  # name of a directory
_MISSING = frozenset(("ImportError", "ModuleNotFoundError", "Exception"))


def imported_files(target: Target, loaded: Collection[str] = ()) -> Iterator[tuple[Path, str]]:
    """The program's file, the project's modules that a run of it has `loaded`, wherever it found
    them, and those of the user's that these import, one by the other, each with its text; see
    `files_from`.
    """
    if not target.path:
        return
    inside = os.path.join(target.root, "")
    own = [file for file in loaded if file.startswith(inside) and file != target.path]
    waiting = [(Path(file), text) for file in own for text in _readable(Path(file))]
    waiting.append((Path(target.path), target.source))
    yield from files_from(waiting, _folders(target, own), loaded)


def _readable(file: Path) -> Iterator[str]:
    """The text of a module; nothing of one that cannot be read: the program fails with it."""
    with suppress(UsageError):
        yield read_source(file)


def files_that_run(target: Target, loaded: Collection[str]) -> Iterator[tuple[Path, str]]:
    """`imported_files`; of a program that may import more than `MOST_FILES`, those beside it that a
    run of it has `loaded`: the rest is a library to it, as installed ones are.
    """
    found = list(islice(imported_files(target, loaded), MOST_FILES + 1))
    if len(found) <= MOST_FILES:
        yield from found
        return
    yield Path(target.path), target.source
    beside = os.path.join(os.path.dirname(target.path), "")
    for path in loaded:
        if path.startswith(beside) and path != target.path:
            yield Path(path), read_source(Path(path))


def files_from(
    waiting: list[tuple[Path, str]], folders: tuple[Path, ...], loaded: Collection[str] = ()
) -> Iterator[tuple[Path, str]]:
    """These files, and the modules of the user's that they import, from `folders` or wherever else
    they are found, each with its text. Where it is known which a run has `loaded`, one that is
    imported only if it can be, or as an option has it, and was not, is none of them.
    """
    known = {os.path.realpath(file) for file, _ in waiting}
    there = set(map(os.path.realpath, loaded))
    while waiting:
        file, text = waiting.pop()
        yield file, text
        for module, may_fail in _imported(file, text, folders):
            real = os.path.realpath(module)
            if real not in known and not (may_fail and there and real not in there):
                waiting += [(module, text) for text in _readable(module)]
                known.add(real)


def whole_program(target: Target, seen: Seen) -> Program:
    """All files that run, to look through."""
    files = {str(file): text for file, text in files_that_run(target, seen.modules)}
    return parsed(files, seen.places, target.path)


def _folders(target: Target, loaded: Collection[str]) -> tuple[Path, ...]:
    """What modules of the project are imported from: the program's folder; those above it, which it
    may put on the path, up to the project's; where its text does so, the next two, and what it
    names below those (`ROOT / "src"`); and whatever packages were `loaded` from.
    """
    own, root = Path(import_root(target.path, target.module)), Path(target.root)
    found = [own, *(folder for folder in own.parents if folder.is_relative_to(root))]
    if "sys.path" in target.source:
        found += own.parents[:2]
        named = [*_texts(target.source)]
        found += [at for folder in (*found,) for name in named for at in _below(folder, name)]
    found += map(_root_of, loaded)
    return tuple(dict.fromkeys(found))


def _texts(source: str) -> Iterator[str]:
    for node in ast.walk(tree_of(source)):
        match node:
            case ast.Constant(value=str(text)):
                yield text


def _below(folder: Path, name: str) -> Iterator[Path]:
    """The directory in `folder` that a text of a program may name."""
    if len(name) < _LONGEST and "\n" not in name and not os.path.isabs(name):
        place = Path(os.path.normpath(folder / name))
        yield from [place] if place.is_dir() else []


def _root_of(file: str) -> Path:
    """What a module is imported from: the directory in which its outermost package is."""
    folder = Path(file).parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


@functools.lru_cache(maxsize=1024)
def _imported(file: Path, text: str, folders: tuple[Path, ...]) -> tuple[tuple[Path, bool], ...]:
    """Files that `text` may import: below `folders`, or wherever else the user works on them; and
    whether it may do without them as the module itself is run: where that fails, or a condition
    chooses others.
    """
    tree = tree_of(text)
    tried: set[ast.AST] = {at for node in tree.body if _does_without(node) for at in node.body}
    tried |= {at for node in tree.body if isinstance(node, ast.If) for at in run_with(node)}
    return tuple(
        (found, node in tried)
        for node in ast.walk(tree)
        for found in _named_by(node, file, folders)
    )


def _does_without(node: ast.stmt) -> TypeGuard[ast.Try]:
    """Whether what is imported in `node` may be missing."""
    return isinstance(node, ast.Try) and any(
        each.type is None or not _MISSING.isdisjoint(code_in(each.type)) for each in node.handlers
    )


def _named_by(node: ast.AST, file: Path, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Files that a statement imports, if it does."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            names = alias.name.split(".")
            for folder in (*folders, *_elsewhere(names[0])):
                yield from _files(folder, names)
    elif isinstance(node, ast.ImportFrom):
        names = node.module.split(".") if node.module else []
        above = (
            (file.parents[min(node.level, len(file.parents)) - 1],)
            if node.level
            else (*folders, *_elsewhere(names[0]))
        )
        for folder in above:
            for alias in node.names:
                yield from _files(folder, [*names, alias.name])


@functools.cache
def _elsewhere(package: str) -> tuple[Path, ...]:
    """The folder that a package is imported from which is neither installed nor Python's own: from
    PYTHONPATH, or in development (`pip install -e`).
    """
    with suppress(Exception):  # whatever a finder, or the package it stands for, raises
        spec = importlib.util.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        place = places[0] if places else spec.origin if spec else None
        if place and os.path.isabs(place) and not place.startswith(STANDARD):
            return () if is_installed(place) else (Path(place).parent,)
    return ()


def _files(folder: Path, names: list[str]) -> Iterator[Path]:
    """What importing the dotted name may execute: each package on the way, and the module."""
    for depth in range(1, len(names) + 1):
        place = folder.joinpath(*names[:depth])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                yield file
