"""Training loops of a program beside the one that was seen."""

import ast
from collections.abc import Iterator, Mapping, Sequence

from autotune.source.edits import Place
from autotune.source.script import is_method, parse


def not_reached(sources: Mapping[str, str], backwards: Sequence[Place]) -> tuple[Place, ...]:
    """Where in `sources` (texts by path) there are loops that train, by a backward pass and a step,
    and have none of the `backwards` that were seen; the line is the backward pass's.
    """
    return tuple(
        Place(path=path, line=node.lineno)
        for path, text in sources.items()
        for node in _others(text, [each.line for each in backwards if each.path == path])
    )


def _others(text: str, seen: Sequence[int]) -> Iterator[ast.expr]:
    try:
        tree = parse(text)
    except SyntaxError:
        return
    for loop in _outermost_loops(tree):
        reached = any(loop.lineno <= line <= (loop.end_lineno or 0) for line in seen)
        calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
        backward = next((call for call in calls if is_method(call, "backward")), None)
        if backward and not reached and any(is_method(call, "step") for call in calls):
            yield backward


def _outermost_loops(node: ast.AST) -> Iterator[ast.stmt]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.For, ast.AsyncFor, ast.While)):
            yield inner
        else:
            yield from _outermost_loops(inner)
