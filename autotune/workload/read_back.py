"""Where a program reads what making a batch leaves behind in the dataset or in what collates."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from autotune.source.script import imported_names, qualified
from autotune.workload.imported import imported_files, tree_of
from autotune.workload.target import Target

_ITEM = re.compile(r"\[.*?\]")


def read_back(target: Target, paths: Iterable[str]) -> str:
    """The first place in the program's own files that reads one of these attributes of another
    object than `self`: "`mix.lam` (train.py:170)"; "" where none does.

    Args:
        target: the program.
        paths: as `Delivery.read` names them ("collate_fn.lam").
    """
    names = {name for path in paths if (name := _attribute(path))}
    for file, text in imported_files(target) if names else ():
        for read in _reads(tree_of(text)):
            if read.attr in names:
                return f"`{ast.unparse(read)}` ({file.name}:{read.lineno})"
    return ""


def _attribute(path: str) -> str:
    """The last attribute in `path`; "" of a variable."""
    return _ITEM.sub("", path).partition(".")[2].rpartition(".")[2]


def _reads(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Attributes that are read, not called, of objects that are neither modules nor `self`."""
    nodes = list(ast.walk(tree))
    called = {id(at.func) for at in nodes if isinstance(at, ast.Call)}
    imports = imported_names(iter(nodes))
    modules = imported_names(at for at in nodes if isinstance(at, ast.Import))
    for at in nodes:
        if not isinstance(at, ast.Attribute) or not isinstance(at.ctx, ast.Load):
            continue
        own = isinstance(at.value, ast.Name) and at.value.id == "self"
        if id(at) not in called and not own and not _is_module(at.value, imports, modules):
            yield at


def _is_module(owner: ast.expr, imports: Mapping[str, str], modules: Mapping[str, str]) -> bool:
    """Whether `owner` is a module that the file imports, or one inside it."""
    root = owner
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in imports:
        return False
    name = qualified(owner, imports)
    return name in modules.values() or name in sys.modules
