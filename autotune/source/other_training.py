"""Training loops of a program beside the one that was seen."""

import ast
from collections.abc import Iterator, Mapping, Sequence

from autotune.source.edits import Place
from autotune.source.script import is_method, parse


def not_reached(sources: Mapping[str, str], backwards: Sequence[Place]) -> tuple[Place, ...]:
    """Where in `sources` (texts by path) there are loops that train, by a backward pass and a step,
    and have none of the `backwards` that were seen; the line is the backward pass's. None where no
    loop has any: those that were seen lie in what the loops call, and do not tell them apart.
    """
    found = [
        (Place(path=path, line=backward.lineno), _holds(loop, path, backwards))
        for path, text in sources.items()
        for loop, backward in _training_loops(text)
    ]
    reached = any(is_reached for _, is_reached in found)
    return tuple(place for place, is_reached in found if reached and not is_reached)


def _holds(loop: ast.stmt, path: str, places: Sequence[Place]) -> bool:
    last = loop.end_lineno or loop.lineno
    return any(each.path == path and loop.lineno <= each.line <= last for each in places)


def _training_loops(text: str) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The loops with a backward pass and a step, each with its first backward pass."""
    try:
        tree = parse(text)
    except SyntaxError:
        return
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
