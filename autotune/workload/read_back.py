"""Where a program reads what making a batch leaves behind in the dataset or in what collates."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from autotune.source.script import Function, imported_names, last_name, qualified
from autotune.workload.imported import imported_files, tree_of
from autotune.workload.target import Target

_ITEM = re.compile(r"\[.*?\]")
# Itself, and what programs call their options: `args.cache` is not the dataset's own.
_OTHERS = frozenset(
    {"FLAGS", "args", "cfg", "conf", "config", "flags", "hparams", "opt", "options", "opts", "self"}
)


def read_back(target: Target, paths: Iterable[str]) -> str:
    """The first place in the program's own files that reads one of these: an attribute, of another
    object than `self`, or a variable, elsewhere than where it is set: "`mix.lam` (train.py:170)";
    "" where none does.

    Args:
        target: the program.
        paths: as `Delivery.read` names them ("collate_fn.lam").
    """
    from torch import Tensor  # which a search that has not begun has not loaded

    named = [_ITEM.sub("", path) for path in paths]
    # `x.shape` is a tensor's, whatever else a dataset notes as its own.
    attributes = {path.rpartition(".")[2] for path in named if "." in path} - set(dir(Tensor))
    variables = {path for path in named if "." not in path}
    files = list(imported_files(target)) if named else []
    own = frozenset(part for file, _ in files for part in file.with_suffix("").parts)
    for file, text in files:
        tree = tree_of(text)
        found: list[ast.Attribute | ast.Name] = [
            read for read in _attributes(tree, own) if read.attr in attributes
        ]
        found += [read for name in sorted(variables) for read in _variable(tree, name)]
        if found:
            first = min(found, key=lambda read: read.lineno)
            return f"`{ast.unparse(first)}` ({file.name}:{first.lineno})"
    return ""


def _attributes(tree: ast.Module, own: frozenset[str]) -> Iterator[ast.Attribute]:
    """Attributes that are read, not called, of other objects than `self`, options, modules and what
    is in libraries; `own` has the names of the user's modules.
    """
    nodes = list(ast.walk(tree))
    called = {id(at.func) for at in nodes if isinstance(at, ast.Call)}
    names = imported_names(iter(nodes))
    modules = frozenset(imported_names(at for at in nodes if isinstance(at, ast.Import)).values())
    for at in nodes:
        if not isinstance(at, ast.Attribute) or not isinstance(at.ctx, ast.Load):
            continue
        other = last_name(at.value) in _OTHERS or _is_elsewhere(at.value, names, modules, own)
        if id(at) not in called and not other:
            yield at


def _is_elsewhere(
    owner: ast.expr, names: Mapping[str, str], modules: frozenset[str], own: frozenset[str]
) -> bool:
    """Whether `owner` is a module that the file imports, or something of a library."""
    root = owner
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in names:
        return False
    name = qualified(owner, names)
    library = not name.startswith(".") and name.partition(".")[0] not in own
    return library or name in modules


def _variable(tree: ast.Module, name: str) -> list[ast.Name]:
    """Where the file's variable `name`, which a function of it sets (`global`), is read by others
    than those that set it or have one of their own by this name.
    """
    functions = [at for at in ast.walk(tree) if isinstance(at, Function)]
    if not any(isinstance(at, ast.Global) and name in at.names for at in ast.walk(tree)):
        return []
    inside = {id(at) for each in functions if _binds(each, name) for at in ast.walk(each)}
    return [
        at
        for at in ast.walk(tree)
        if isinstance(at, ast.Name)
        and at.id == name
        and isinstance(at.ctx, ast.Load)
        and id(at) not in inside
    ]


def _binds(function: Function, name: str) -> bool:
    return any(
        (isinstance(at, ast.arg) and at.arg == name)
        or (isinstance(at, ast.Name) and at.id == name and isinstance(at.ctx, ast.Store))
        for at in ast.walk(function)
    )
