"""The names that a program reads, with those that it reads instead of them."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from autotune.source.script import LOOPS, Function, last_name

_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


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
            for at in ast.walk(function)
            if isinstance(at, ast.Attribute) and isinstance(at.ctx, ast.Store)
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
            return changed.union(self._set_later, _stored(node))
        if isinstance(node, _COMPREHENSIONS):
            return changed.union(_stored(node))
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


def _stored(loop: ast.AST) -> Iterator[str]:
    """The names of variables and attributes that are set in a loop."""
    for at in ast.walk(loop):
        if isinstance(at, ast.Name | ast.Attribute) and isinstance(at.ctx, ast.Store):
            yield last_name(at)


def _given(function: Function) -> Iterator[str]:
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if each.arg not in ("self", "cls"):
            yield each.arg


def _is_read(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)


def read_in(node: ast.AST) -> list[str]:
    """The last names of the variables and attributes that `node` reads."""
    return [last_name(each) for each in ast.walk(node) if _is_read(each)]
