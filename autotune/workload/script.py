"""Running a user's script as `python script.py` would, its source given as text so that a patched
one runs in its place.
"""

import importlib.machinery
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
    """A script to run: `path` is what it believes to be its file, `sources` replace the text of
    files by path.

    `arguments` are its `sys.argv[1:]`, `directory` its working directory.
    """

    path: str
    arguments: tuple[str, ...] = ()
    directory: str = "."
    sources: Mapping[str, str] = field(default_factory=dict)


def run_script(program: Program) -> None:
    """Run it as `__main__` in this process, in its directory, with its own folder first on the
    import path.

    Raises:
        Whatever the program raises, SystemExit included.
    """
    os.chdir(program.directory)
    sys.argv = [program.path, *program.arguments]
    sys.path.insert(0, os.path.dirname(program.path))
    if len(program.sources) > 1:
        sys.meta_path.insert(0, _Replacing(program.sources))
    text = program.sources.get(program.path)
    if text is None:
        with open(program.path, "rb") as file:
            source: str | bytes = file.read()
    else:
        source = text
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=program.path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(compile(source, program.path, "exec"), module.__dict__)


def seed_everything(seed: int) -> None:
    """Start every random stream that the program may use from `seed`; a program that seeds itself
    still does.
    """
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


class _Replacing(MetaPathFinder):
    """Imports modules of the program from the replaced text of their files."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or spec.origin not in self._sources:
            return None
        spec.loader = _TextLoader(fullname, spec.origin, self._sources[spec.origin])
        return spec


class _TextLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - as importlib calls it
        return compile(self._text, self.path, "exec", dont_inherit=True)
