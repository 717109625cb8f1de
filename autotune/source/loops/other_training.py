"""Training loops of a program beside the one that was seen."""

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from autotune.source.edits import Place
from autotune.source.script import covers, is_method, parse


def not_reached(sources: Mapping[str, str], backwards: Sequence[Place]) -> tuple[Place, ...]:
    """Where in `sources` (texts by path) there are loops that train, by a backward pass and a step,
    and have none of the `backwards` that were seen; the line is the backward pass's. None where no
    loop has any: those that were seen lie in what the loops call, and do not tell them apart. Nor
    those of classes that nothing names: a library has trainers for other models.
    """
    trees = {path: tree for path, text in sources.items() if (tree := _parsed(text)) is not None}
    named = {name for tree in trees.values() for name in _named(tree)}
    found = [
        (Place(path=path, line=backward.lineno), _holds(loop, path, backwards))
        for path, tree in trees.items()
        for loop, backward in _training_loops(_used(tree, named, path, backwards))
    ]
    reached = any(is_reached for _, is_reached in found)
    return tuple(place for place, is_reached in found if reached and not is_reached)


def _holds(loop: ast.stmt, path: str, places: Sequence[Place]) -> bool:
    return any(each.path == path and covers(loop, each.line) for each in places)


def _parsed(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except SyntaxError:
        return None


def _named(tree: ast.AST) -> Iterator[str]:
    """The names that are used; a definition is no use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _used(tree: ast.Module, named: Set[str], path: str, backwards: Sequence[Place]) -> ast.Module:
    """`tree` without the classes that are not named and that ran nothing of `backwards`."""
    body = [
        node
        for node in tree.body
        if not isinstance(node, ast.ClassDef) or node.name in named or _holds(node, path, backwards)
    ]
    return ast.Module(body=body, type_ignores=[])


def _training_loops(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The loops with a backward pass and a step, each with its first backward pass."""
    for loop in _outermost_loops(tree):
        calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
        backward = next((call for call in calls if is_method(call, "backward")), None)
        if backward and any(is_method(call, "step") for call in calls):
            yield loop, backward


def _outermost_loops(node: ast.AST) -> Iterator[ast.stmt]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.For, ast.AsyncFor, ast.While)):
            yield inner
        else:
            yield from _outermost_loops(inner)
