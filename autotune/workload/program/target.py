"""What the user named: a script or a recipe module, its arguments, and the text of its files."""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.source import imports_package, missing_from_recipe
from autotune.workload.program.framework import is_installed
from autotune.workload.program.recipe import standalone_program
from autotune.workload.program.script import Program, import_root

# A recipe's program is measured, not trained: its runs end when there is enough to see.
_MANY_EPOCHS = 1_000_000

# What lies at the top of a project: of a repository, or of what builds or needs packages.
MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")

# How a script reads that pip wrote for an entry point.
_LAUNCHES = re.compile(
    r"\A#!.*\n(?:.*\n)?(?:import re\n)?import sys\nfrom (?P<name>\w+)(?:\.\w+)* import \w+\nif "
)

SCRIPT, RECIPE, OBJECTS = "script", "recipe", "objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A training program by its file."""

    kind: str  # "script", "recipe" or "objects"
    path: str  # absolute; "" for objects
    module: str = ""  # the dotted name of a file in a package that is run as `python -m` would
    arguments: tuple[str, ...] = ()
    source: str = ""  # the text of the file as it is
    program_source: str = ""  # that is run; for a recipe the standalone program written for it
    directory: str = ""  # the program's working directory
    objects: bytes = b""  # the pickled function that trains in place of a script
    files: tuple[str, ...] = ()  # that the code of the objects is in, as tracebacks name them

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return Path(self.path).stem if self.path else "training"

    @property
    def source_sha256(self) -> str:
        """Hash of the file as it is, which a patch is only good for."""
        return hashlib.sha256(self.source.encode() or self.objects).hexdigest()

    @property
    def root(self) -> str:
        """The project's directory: where none is marked as that, the one above the program's that
        it was started in, if its text puts folders on the import path.
        """
        if not self.path:
            return self.directory
        folder, started = self._folder, Path(self.directory)
        found = project_root(folder)
        from_above = started in folder.parents[:2] and "sys.path" in self.source
        return str(started if from_above and not is_project(found) else found)

    @property
    def _folder(self) -> Path:
        """Where it is imported from; what pip wrote to launch a package has that one's."""
        package = _LAUNCHES.search(self.source) if "sys.exit(" in self.source else None
        roots = _roots(package["name"]) if package else iter(())
        return next(roots, Path(import_root(self.path, self.module)))

    def program(self, sources: dict[str, str] | None = None, *, marked: bool = False) -> Program:
        """The program to run, with the text of `sources` for its files' own, `marked` or not."""
        texts = {self.path: self.program_source} if self.kind == RECIPE else {}
        endless = self.kind == RECIPE and not any(
            argument.startswith("--epochs") for argument in self.arguments
        )
        return Program(
            path=self.path,
            module=self.module,
            arguments=(*self.arguments, *(("--epochs", str(_MANY_EPOCHS)) if endless else ())),
            directory=self.directory,
            sources={**texts, **(sources or {})},
            marked=marked,
        )

    def texts(self, paths: Iterable[str]) -> dict[str, str]:
        """The program's own text, and that of those of `paths` that lie in the project."""
        texts = {self.path: self.program_source}
        for path in paths:
            inside = path.startswith(self.root + os.sep) and not is_installed(path)
            if inside and path not in texts and os.path.isfile(path):
                texts[path] = read_source(Path(path))
        return texts


def project_root(folder: Path) -> Path:
    """The project's directory that `folder` is in: the one under version control, else the nearest
    that builds a package or lists what it needs, else itself.
    """
    above = (folder, *folder.parents)
    marked = (at for mark in (MARKS[:1], MARKS[1:]) for at in above if _is_marked(at, mark))
    return next(marked, folder)


def is_project(folder: Path) -> bool:
    """Whether `folder` is the top of a project."""
    return _is_marked(folder, MARKS)


def _is_marked(folder: Path, marks: Iterable[str]) -> bool:
    return any((folder / mark).exists() for mark in marks)


def _check_types(path: object, arguments: Any) -> None:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise UsageError(f"{path!r} is not the name of a program", 'name a file: "train.py"')
    listed = isinstance(arguments, Sequence) and not isinstance(arguments, str)
    if not listed or not all(isinstance(each, str) for each in arguments):
        raise UsageError(
            f"{arguments!r} are not a program's arguments",
            'write them as a list of texts: ["--lr", "0.1"]',
        )


def load_target(path: str | os.PathLike[str], arguments: Sequence[str] = ()) -> Target:
    """The target in the file `path`, or of the module or package that has this dotted name from
    here on, or where Python would import it from.

    A file that imports its own package is run as a module of it, as `python -m` runs it.

    Raises:
        UsageError: there is no such file, it is not a Python program, or an argument is no text.
    """
    _check_types(path, arguments)
    file, module = Path(path).expanduser(), ""
    if not file.is_file():
        file, module = _named(str(path)) or (file, "")
    if not file.is_file():
        there = "is no regular file" if os.path.lexists(file) else "does not exist"
        what = "is a directory" if file.is_dir() else there
        raise UsageError(f"{path} {what}", _nearest(file))
    if file.suffix == ".ipynb":
        advice = (
            "export its code first (jupyter nbconvert --to script), or call autotune.tune in it"
        )
        raise UsageError(f"{path} is a notebook", advice)
    source = read_source(file)
    try:
        compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = f" line {error.lineno}" if error.lineno else ""
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        text = (error.text or "").strip()
        raise UsageError(
            f"{path}{line} is not {python}: {error.msg}" + (f"\n  {text}" if text else ""),
            "name a program that this Python runs; one for an older Python has to be brought up to "
            "date first",
        ) from None
    file = file.resolve()
    recipe = not missing_from_recipe(source)
    return Target(
        kind=RECIPE if recipe else SCRIPT,
        path=str(file),
        module="" if recipe else module or _module(file, source),
        arguments=tuple(arguments),
        source=source,
        program_source=standalone_program(source, file.stem, str(file)) if recipe else source,
        directory=os.getcwd(),
    )


def _nearest(file: Path) -> str:
    """What to name instead of `file`."""
    names = [each.name for each in file.parent.glob("*.py") if each.is_file()]
    near = get_close_matches(file.name, names, n=1)
    if near:
        return f"did you mean {file.with_name(near[0])}?"
    return "name a training script or a recipe module: train.py"


def _named(module: str) -> tuple[Path, str] | None:
    """The file that `python -m` would run for `module`, and that file's own dotted name."""
    place = Path(*module.split("."))
    if not place.name or place.is_absolute():
        return None
    for root in (Path(), *_roots(module.partition(".")[0])):
        at = root / place
        for file, name in ((at.with_suffix(".py"), ""), (at / "__main__.py", ".__main__")):
            if file.is_file():
                return file, module + name
    return None


def _roots(package: str) -> Iterator[Path]:
    """The folders that `package` is imported from, if not from here: in development (`pip install
    -e`), or by PYTHONPATH. It is not imported for that.
    """
    with suppress(Exception):  # whatever a finder raises of what is no name
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place).parent


def _module(file: Path, source: str) -> str:
    """The dotted name of `file` where it imports what only a module of its package can, else "".

    A module beside it that has the package's name is what a script imports by that.
    """
    folders: list[str] = []
    for folder in file.parents:
        if not (folder / "__init__.py").is_file():
            break
        folders.insert(0, folder.name)
    package = "".join(folders[:1])
    if any((file.parent / name).exists() for name in (f"{package}.py", package) if package):
        package = "."
    return ".".join([*folders, file.stem]) if imports_package(source, package) else ""


def read_source(file: Path) -> str:
    """The text of a Python file, line endings kept.

    Raises:
        UsageError: it is not text in the encoding that it declares.
    """
    import tokenize

    try:
        with file.open("rb") as raw:
            encoding, _ = tokenize.detect_encoding(raw.readline)
        with file.open(encoding=encoding, newline="") as text:
            return text.read()
    except (SyntaxError, UnicodeDecodeError, OSError) as error:
        raise UsageError(
            f"{file} cannot be read as Python: {error}", "name a Python source file"
        ) from None
