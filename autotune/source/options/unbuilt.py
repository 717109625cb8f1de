"""Classes that a program defines, and makes no object of: no run comes to their methods."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from autotune.source.edits import Place
from autotune.source.options.lines import empty, first_line
from autotune.source.program import BYTE_ORDER_MARK
from autotune.source.script import last_name, tree_of

# What finds a class by a name that no text may have.
_FINDING = frozenset(("import_module", "getmembers", "locate", "instantiate", "LightningCLI"))
_RUNNING = frozenset(("eval", "exec", "__import__"))
_TABLES = frozenset(("globals", "locals", "vars"))
_WORD = re.compile(r"\w+")


def without_unbuilt(texts: Mapping[str, str], places: Iterable[Place | None]) -> dict[str, str]:
    """The `texts` of all files that run, by path, with nothing in the classes whose names stand
    nowhere but where they are defined and imported; lines stay where they are. None is emptied
    that has one of `places`, which a run came to, is decorated, or may be found by its name.
    """
    found = {path: text.removeprefix(BYTE_ORDER_MARK) for path, text in texts.items()}
    trees = {path: tree_of(text) for path, text in found.items()}
    named = Counter(word for tree in trees.values() for word in _words(tree))
    if any(map(_finds, _nodes(trees.values()))):
        return found
    reached = {(place.path, place.line) for place in places if place is not None}
    for path, tree in trees.items():
        lines = list(StringIO(found[path], newline=""))
        for each in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            first, last = first_line(each.body[0]), each.end_lineno or each.lineno
            own = Counter(_words(each))
            built = named[each.name] > own[each.name] or each.decorator_list or each.keywords
            if built or first <= (each.lineno or 0):
                continue
            if not any((path, line) in reached for line in range(first, last + 1)):
                empty(lines, range(first, last + 1))
        found[path] = "".join(lines)
    return found


def _nodes(trees: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (node for tree in trees for node in ast.walk(tree))


def _words(tree: ast.AST) -> Iterator[str]:
    """The names and attributes that a text reads or calls, and the words of its strings; not what
    it defines or imports.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)):
                yield from _WORD.findall(text)


def _finds(node: ast.AST) -> bool:
    """Whether it may find a class whose name is made up as it runs, or all of some kind."""
    match node:
        case ast.Call(func=function, args=[_, name, *_]) if last_name(function) == "getattr":
            return not isinstance(name, ast.Constant)
        case ast.Call(func=function):
            runs = isinstance(function, ast.Name) and function.id in _RUNNING
            return runs or last_name(function) in _FINDING
        case (
            ast.Subscript(value=ast.Call(func=function))
            | ast.Attribute(value=ast.Call(func=function))
        ):
            return last_name(function) in _TABLES
        case (
            ast.Subscript(value=ast.Attribute(attr="__dict__" | "modules"))
            | ast.Attribute(attr="__subclasses__")
            | ast.FunctionDef(name="__init_subclass__")
        ):
            return True
    return False
