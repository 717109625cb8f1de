"""Classes that a program defines, and makes no object of: no run comes to their methods."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import StringIO

from autotune.source.edits import Place
from autotune.source.options.lines import empty
from autotune.source.program import BYTE_ORDER_MARK
from autotune.source.script import first_line, last_name, tree_of

# What finds a class by a name that no text may have.
_FINDING = frozenset(
    (
        *("import_module", "getmembers", "locate", "instantiate", "LightningCLI", "globals"),
        *("attrgetter", "__dict__", "__subclasses__", "__init_subclass__", "__import__"),
    )
)
_RUNNING = frozenset(("eval", "exec"))
_TABLES = frozenset(("locals", "vars"))
_WORD = re.compile(r"\w+")


def without_unbuilt(texts: Mapping[str, str], places: Iterable[Place | None]) -> dict[str, str]:
    """The `texts` of all files that run, by path, with nothing in the classes whose names stand
    nowhere but where they are defined and imported, in docstrings, and in others of these classes;
    lines stay where they are. None is emptied that has one of `places`, which a run came to, is
    decorated, or may be found by its name.
    """
    found = {path: text.removeprefix(BYTE_ORDER_MARK) for path, text in texts.items()}
    trees = {path: tree_of(text) for path, text in found.items()}
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    if any(_names_a_finder(node) or _looks_up(node) for node in nodes):
        return found
    reached = {(place.path, place.line) for place in places if place is not None}
    waiting = [
        (path, node, Counter(_words(node)))
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and _may_be_emptied(path, node, reached)
    ]
    named = Counter(word for tree in trees.values() for word in _words(tree))
    while emptied := [each for each in waiting if named[each[1].name] <= each[2][each[1].name]]:
        waiting = [each for each in waiting if each not in emptied]
        for path, node, own in emptied:
            named -= own
            lines = list(StringIO(found[path], newline=""))
            empty(lines, _body(node))
            found[path] = "".join(lines)
    return found


def _body(kind: ast.ClassDef) -> range:
    return range(first_line(kind.body[0]), (kind.end_lineno or kind.lineno) + 1)


def _may_be_emptied(path: str, kind: ast.ClassDef, reached: Collection[tuple[str, int]]) -> bool:
    body = _body(kind)
    within = any((path, line) in reached for line in body)
    return body.start > kind.lineno and not (within or kind.decorator_list)


def _words(tree: ast.AST) -> Iterator[str]:
    """The names that a text reads or calls, and the words of its strings, but for docstrings."""
    told = set[ast.expr]()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as text):  # before the text itself
                told.add(text)
            case ast.Constant() if node in told:
                continue
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)):
                yield from _WORD.findall(text)


def _names_a_finder(node: ast.AST) -> bool:
    """Whether it names what may find a class by a name that is made up as it runs."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
            return name in _FINDING
        case ast.alias(name=name):
            return name in _FINDING
        case ast.ClassDef(keywords=keywords):  # a metaclass, which those below it have too
            return bool(keywords)
    return False


def _looks_up(node: ast.AST) -> bool:
    """Whether it asks for something by such a name, or for all of some kind."""
    match node:
        case ast.Call(func=function, args=[_, name, *_]) if last_name(function) == "getattr":
            return not isinstance(name, ast.Constant)
        case ast.Call(func=ast.Name(id=name)):
            return name in _RUNNING
        case (
            ast.Subscript(value=ast.Call(func=function))
            | ast.Attribute(value=ast.Call(func=function))
        ):
            return last_name(function) in _TABLES
        case ast.Subscript(value=ast.Attribute(attr="modules")):
            return True
    return False
