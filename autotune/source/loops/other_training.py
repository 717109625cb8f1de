"""Training loops of a program beside the one that was seen."""

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from autotune.source.edits import Place
from autotune.source.loops.beside import NamesBeside, leaves, read_in, used_in
from autotune.source.script import LOOPS, Function, covers, is_guard, is_method, tree_of


def not_reached(
    sources: Mapping[str, str], backwards: Sequence[Place], main: str
) -> tuple[Place, ...]:
    """Where in `sources` (texts by path) there are loops that train, by a backward pass and a step,
    and have none of the `backwards` that were seen; the line is the backward pass's. None where no
    loop has any: those that were seen lie in what the loops call, and do not tell them apart. Nor
    those of classes, functions and methods that nothing names, as a library has trainers for other
    models, of functions that are named only instead of what was seen to train (`if gpu: ... else:`,
    a table of which one is looked up), of a branch that leaves the function before it
    (`if overfit: ... return`), and of what a file runs only as the script that `main` is.
    """
    trees = {
        path: tree_of(text) if path == main else _as_imported(tree_of(text))
        for path, text in sources.items()
    }
    named = _in_use(trees, backwards)
    left_out = _named_instead(trees, backwards) | _unnamed_methods(trees)
    found = [
        (Place(path=path, line=backward.lineno), _holds(loop, path, backwards))
        for path, tree in trees.items()
        for loop, backward in _training_loops(_used(tree, named, path, backwards), left_out)
        if not _is_left_out(tree, loop, path, backwards)
    ]
    reached = any(is_reached for _, is_reached in found)
    return tuple(place for place, is_reached in found if reached and not is_reached)


def _as_imported(tree: ast.Module) -> ast.Module:
    """`tree` without what an import skips."""
    return ast.Module(body=[at for at in tree.body if not is_guard(at)], type_ignores=[])


def _is_left_out(tree: ast.Module, loop: ast.stmt, path: str, backwards: Sequence[Place]) -> bool:
    """Whether `loop` is in a branch that leaves its function before the first of `backwards`."""
    holders = [at for at in ast.walk(tree) if isinstance(at, Function) and covers(at, loop.lineno)]
    lines = [
        each.line
        for each in backwards
        if each.path == path and holders and covers(holders[-1], each.line)
    ]
    return any(
        leaves(block) and (block[-1].end_lineno or 0) < min(lines)
        for at in ast.walk(tree)
        if isinstance(at, ast.If)
        for block in (at.body, at.orelse)
        if lines and block and block[0].lineno <= loop.lineno <= (block[-1].end_lineno or 0)
    )


def _holds(loop: ast.stmt, path: str, places: Sequence[Place]) -> bool:
    return any(each.path == path and covers(loop, each.line) for each in places)


def _in_use(trees: Mapping[str, ast.Module], backwards: Sequence[Place]) -> set[str]:
    """The names that are used by what runs, what trained, and what these name, and so on."""
    named = set[str]()
    waiting: dict[str, list[ast.AST]] = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | Function) and not _holds(node, path, backwards):
                waiting.setdefault(node.name, []).append(node)
                named.update(name for each in node.decorator_list for name in used_in(each))
            else:
                named.update(used_in(node))
    while found := named & waiting.keys():
        named.update(name for at in found for node in waiting.pop(at) for name in used_in(node))
    return named


def _unnamed_methods(trees: Mapping[str, ast.Module]) -> set[str]:
    """The methods that nothing names, not even in a text, by which one may be asked for."""
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    texts = {at.value for at in nodes if isinstance(at, ast.Constant)}
    methods = {
        at.name
        for kind in nodes
        if isinstance(kind, ast.ClassDef)
        for at in kind.body
        if isinstance(at, Function) and not at.decorator_list
    }
    return methods - texts.union(*map(used_in, trees.values()))


def _used(tree: ast.Module, named: Set[str], path: str, backwards: Sequence[Place]) -> ast.Module:
    """`tree` without what is not named or decorated, and ran nothing of `backwards`."""
    body = [
        node
        for node in tree.body
        if not isinstance(node, ast.ClassDef | Function)
        or node.name in named
        or (isinstance(node, Function) and node.decorator_list)
        or _holds(node, path, backwards)
    ]
    return ast.Module(body=body, type_ignores=[])


def _named_instead(trees: Mapping[str, ast.Module], backwards: Sequence[Place]) -> set[str]:
    """The functions named only in branches beside those of what was seen to train."""
    functions = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    ]
    training = {node.name for path, node in functions if _holds(node, path, backwards)}
    for _ in functions:  # at the most: and those that name them
        more = {node.name for _, node in functions if not training.isdisjoint(read_in(node))}
        if more <= training:
            break
        training |= more
    names = NamesBeside(list(trees.values()))
    instead: dict[str, bool] = {}
    for tree in trees.values():
        for name, beside in names.within(tree):
            instead[name] = instead.get(name, True) and not training.isdisjoint(beside)
    return {name for name, always in instead.items() if always} - training


def _training_loops(tree: ast.Module, left_out: Set[str]) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The loops with a backward pass and a step, each with its first backward pass."""
    for loop in _outermost_loops(tree, left_out):
        calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
        backward = next((call for call in calls if is_method(call, "backward")), None)
        if backward and any(is_method(call, "step") for call in calls):
            yield loop, backward


def _outermost_loops(node: ast.AST, left_out: Set[str]) -> Iterator[ast.stmt]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, LOOPS):
            yield inner
        elif not (isinstance(inner, Function) and inner.name in left_out):
            yield from _outermost_loops(inner, left_out)
