"""Running a user's script as `python script.py` or `python -m package.module` would, its source
given as text so that a patched one runs in its place.
"""

import ast
import importlib
import importlib.machinery
import importlib.util
import linecache
import os
import random
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A script to run."""

    path: str  # what it believes to be its file
    module: str = ""  # its dotted name where it is run as `python -m` runs it
    arguments: tuple[str, ...] = ()  # its `sys.argv[1:]`
    directory: str = "."
    sources: Mapping[str, str] = field(default_factory=dict)  # that replace the text of files
    marked: bool = False  # it is looked at which blocks of `sources` it comes to


def run_script(program: Program, code: Mapping[str, ast.Module] | None = None) -> None:
    """Run it as `__main__` in this process, in its directory, with its own folder first on the
    import path, or its package's. The `code` of a file, if given, is run for its text.

    Raises:
        Whatever the program raises, SystemExit included.
    """
    os.chdir(program.directory)
    sys.argv = [program.path, *program.arguments]
    sys.path.insert(0, import_root(program.path, program.module))
    if program.sources.keys() - {program.path}:
        sys.meta_path.insert(0, _Replacing(program.sources, code or {}))
    text = program.sources.get(program.path)
    if text is None:
        with open(program.path, "rb") as file:
            source: str | bytes | ast.Module = file.read()
    else:
        source = (code or {}).get(program.path, text)
        _show(program.path, text)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=program.path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    if program.module:
        package = program.module.rpartition(".")[0]
        if package:
            importlib.import_module(package)
        spec = importlib.util.spec_from_file_location(program.module, program.path)
        module.__dict__.update(__package__=package, __spec__=spec)
    exec(compile(source, program.path, "exec"), module.__dict__)


def import_root(path: str, module: str = "") -> str:
    """The folder that a script, or the outermost package of a module, is imported from."""
    for _ in range(module.count(".") + 1):
        path = os.path.dirname(path)
    return path


def seed_everything(seed: int) -> None:
    """Start every random stream that a program may use from `seed`; it may seed them itself."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _show(path: str, text: str) -> None:
    """Have tracebacks, and whoever else asks for lines of `path`, see the text that runs."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class _Replacing(MetaPathFinder):
    """Imports modules of the program from the replaced text of their files."""

    def __init__(self, sources: Mapping[str, str], code: Mapping[str, ast.Module]) -> None:
        self._sources = {
            os.path.realpath(path): (text, code.get(path, text)) for path, text in sources.items()
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        # A program may have put "../.." on its path: the origin then has it in its middle.
        found = self._sources.get(os.path.realpath(spec.origin))
        if found is None:
            return None
        spec.loader = _TextLoader(fullname, spec.origin, *found)
        return spec


class _TextLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str, code: str | ast.Module) -> None:
        super().__init__(fullname, path)
        self._text, self._code = text, code

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - as importlib calls it
        _show(self.path, self._text)
        return compile(self._code, self.path, "exec", dont_inherit=True)
