"""Training loops beside the one that was seen, told apart by the names that a program reads."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TypeGuard

from autotune.source.calls.writes import stored_in
from autotune.source.edits import Place
from autotune.source.script import (
    COMPREHENSIONS,
    LOOPS,
    Function,
    covers,
    is_guard,
    is_method,
    last_name,
    tree_of,
)


def not_reached(
    sources: Mapping[str, str], backwards: Sequence[Place], main: str
) -> tuple[Place, ...]:
    """The backward passes of loops in `sources` (texts by path) that train and have none of the
    `backwards` that were seen; none where no loop has any. Left out are those that nothing names,
    that are named only instead of what was seen to train (`if gpu: ... else:`, a table), that stand
    in a branch that leaves before it, and what a file runs only as the script that `main` is.
    """
    trees = {path: tree_of(text) for path, text in sources.items()}
    for path in trees.keys() - {main}:  # what an import skips
        trees[path].body = [at for at in trees[path].body if not is_guard(at)]
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


class NamesBeside:
    """The names that a program reads, each with those that are read in other branches of the
    conditions around it, after a branch that leaves, or elsewhere in a table of which one is looked
    up: of none that may come out otherwise when they are asked again.
    """

    def __init__(self, trees: Sequence[ast.AST]) -> None:
        read = Counter(name for tree in trees for name in read_in(tree))
        nodes = [at for tree in trees for at in ast.walk(tree)]
        in_loops = {name for loop in nodes if isinstance(loop, LOOPS) for name in read_in(loop)}
        self._often = in_loops | {name for name, count in read.items() if count > 1}
        self._set_later = {
            at.attr
            for function in nodes
            if isinstance(function, Function) and function.name != "__init__"
            for at in stored_in(ast.walk(function))
            if isinstance(at, ast.Attribute)
        }
        self._tables = {name for tree in trees for name in self._looked_up(tree)}
        self._tables -= {name for name in self._tables if read[name] > 1}

    def within(
        self,
        node: ast.AST,
        beside: frozenset[str] = frozenset(),
        changed: frozenset[str] = frozenset(),
        after: frozenset[str] = frozenset(),
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """What is read in `node`, with what is beside it; `changed` is what is set around it."""
        match node:
            case ast.If() | ast.IfExp():
                yield from self._in_branches(node, beside, changed, after)
                return
            case ast.Assign(targets=[target], value=ast.Dict(values=several)) if (
                last_name(target) in self._tables
            ):
                for each in several:
                    others = (read_in(at) for at in several if at is not each)
                    yield from self.within(each, beside.union(*others), changed)
                return
        if isinstance(node, ast.expr) and not any(
            isinstance(at, ast.IfExp) for at in ast.walk(node)
        ):
            yield from ((name, beside) for name in read_in(node))  # a sum may be of any depth
            return
        if _is_read(node):
            yield last_name(node), beside
        changed = self._changed(node, changed)
        for _, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            yield from self._in_turn(
                [at for at in parts if isinstance(at, ast.AST)], beside, changed
            )

    def _changed(self, node: ast.AST, changed: frozenset[str]) -> frozenset[str]:
        """What is set, or given anew, around what `node` holds."""
        if isinstance(node, LOOPS):
            return changed.union(self._set_later, map(last_name, stored_in(ast.walk(node))))
        if isinstance(node, COMPREHENSIONS):
            return changed.union(map(last_name, stored_in(ast.walk(node))))
        if isinstance(node, Function):
            often = node.name in self._often
            return frozenset(self._set_later.union(_given(node)) if often else ())
        return changed

    def _in_branches(
        self,
        node: ast.If | ast.IfExp,
        beside: frozenset[str],
        changed: frozenset[str],
        after: frozenset[str],
    ) -> Iterator[tuple[str, frozenset[str]]]:
        yield from self.within(node.test, beside, changed)
        turns = not changed.isdisjoint(used_in(node.test))
        blocks = [at if isinstance(at, list) else [at] for at in (node.body, node.orelse)]
        for block, other in (blocks, blocks[::-1]):
            rest = after if leaves(block) else frozenset[str]()
            there = frozenset[str]() if turns else beside.union(rest, *map(read_in, other))
            yield from self._in_turn(block, there, changed, after)

    def _in_turn(
        self,
        block: Sequence[ast.AST],
        beside: frozenset[str],
        changed: frozenset[str],
        after: frozenset[str] = frozenset(),
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """What is read in parts that follow each other, and `after` them."""
        for index, node in enumerate(block):
            if not isinstance(node, ast.If):
                yield from self.within(node, beside, changed)
                continue
            rest = after.union(*map(read_in, block[index + 1 :]))
            yield from self.within(node, beside, changed, rest)
            if changed.isdisjoint(used_in(node.test)):
                left = (at for each in (node.body, node.orelse) if leaves(each) for at in each)
                beside = beside.union(*map(read_in, left))

    def _looked_up(self, node: ast.AST, changed: frozenset[str] = frozenset()) -> Iterator[str]:
        """The names of what is asked, in `node`, for the one thing that it has under a key."""
        match node:
            case (
                ast.Subscript(value=table, slice=key, ctx=ast.Load())
                | ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_])
            ) if changed.isdisjoint(used_in(key)):
                yield last_name(table)
        changed = self._changed(node, changed)
        for child in ast.iter_child_nodes(node):
            yield from self._looked_up(child, changed)


def leaves(block: Sequence[ast.AST]) -> bool:
    """Whether `block` leaves its function in the end."""
    return bool(block) and isinstance(block[-1], ast.Return | ast.Raise)


def used_in(tree: ast.AST) -> Iterator[str]:
    """The names that are used; a definition is no use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _given(function: Function) -> Iterator[str]:
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if each.arg not in ("self", "cls"):
            yield each.arg


def _is_read(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)


def read_in(node: ast.AST) -> list[str]:
    """The last names of the variables and attributes that `node` reads."""
    return [last_name(each) for each in ast.walk(node) if _is_read(each)]
