"""What a program's options leave out of its text: branches that a run with these never comes to."""

import ast
import operator
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Any

from autotune.source.edits import Place
from autotune.source.program import BYTE_ORDER_MARK
from autotune.source.script import tree_of

_UNKNOWN = object()
_COMPARED: Mapping[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, others: one in others,
    ast.NotIn: lambda one, others: one not in others,
}


def without_left_out(
    texts: Mapping[str, str], options: Mapping[str, Any], places: Iterable[Place | None]
) -> dict[str, str]:
    """`texts` by path, each branch emptied that the values of `options` exclude (`if args.mixup:`
    without `--mixup`); lines stay where they are. An option that the text sets again excludes none,
    whatever object it is set of, and a branch stays that has one of `places`, which a run came to.
    """
    found = {path: text.removeprefix(BYTE_ORDER_MARK) for path, text in texts.items()}
    trees = {path: tree_of(text) for path, text in found.items()}
    changed = {name for tree in trees.values() for name in _set_anew(tree)}
    known = {name: value for name, value in options.items() if name not in changed}
    reached = {(place.path, place.line) for place in places if place is not None}
    for path, tree in trees.items():
        values = _Values(tree, known, changed)
        lines = list(StringIO(found[path], newline=""))
        for block in _left_out(tree, values):
            span = range(_first_line(block[0]), (block[-1].end_lineno or 0) + 1)
            if not any((path, line) in reached for line in span):
                _empty(lines, span)
        found[path] = "".join(lines)
    return found


class _Values:
    """What expressions of one file come out as, where `options` and its constants tell, but for
    those that other names of the program have `changed`.
    """

    def __init__(self, tree: ast.Module, options: Mapping[str, Any], changed: set[str]) -> None:
        self._options = options
        constants = _set_once(tree)
        self._constants = {name: value for name, value in constants if name not in changed}

    def of(self, value: ast.expr) -> Any:
        """What `value` is; `_UNKNOWN` where that is not known."""
        found = _UNKNOWN
        match value:
            case ast.Constant(value=constant):
                found = constant
            case ast.Name(id=name):
                found = self._constants.get(name, _UNKNOWN)
            case ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name):
                found = self._options.get(name, _UNKNOWN)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                known = self.of(inner)
                found = known if known is _UNKNOWN else not known
            case ast.BoolOp(op=operation, values=values):
                found = self._joined(isinstance(operation, ast.Or), values)
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                found = self._compared(operation, self.of(left), self._listed(right))
        return found

    def _joined(self, any_of_them: bool, values: list[ast.expr]) -> Any:
        found = [self.of(each) for each in values]
        known = [bool(each) for each in found if each is not _UNKNOWN]
        if any_of_them in known:
            return any_of_them
        return not any_of_them if len(known) == len(found) else _UNKNOWN

    def _listed(self, value: ast.expr) -> Any:
        if not isinstance(value, ast.List | ast.Tuple | ast.Set):
            return self.of(value)
        found = [self.of(each) for each in value.elts]
        return _UNKNOWN if _UNKNOWN in found else found

    def _compared(self, operation: ast.cmpop, left: Any, right: Any) -> Any:
        if left is _UNKNOWN or right is _UNKNOWN:
            return _UNKNOWN
        try:
            return _COMPARED[type(operation)](left, right)
        except TypeError:  # the program does not come there either
            return _UNKNOWN


def _left_out(node: ast.AST, values: _Values) -> Iterator[list[ast.stmt]]:
    """The blocks in `node` that no run comes to, and that stand on lines of their own."""
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.If):
            yield from _left_out(inner, values)
            continue
        holds = values.of(inner.test)
        for block, comes in ((inner.body, holds), (inner.orelse, not holds)):
            if holds is _UNKNOWN or comes:
                for statement in block:
                    yield from _left_out(ast.Module(body=[statement], type_ignores=[]), values)
            else:
                yield from _of_own_lines(inner, block)


def _of_own_lines(holder: ast.If, block: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """`block` of `holder`; the blocks of an `elif`, which is no statement to be emptied."""
    match block:
        case [ast.If(body=body, orelse=other) as only] if only.col_offset == holder.col_offset:
            yield from _of_own_lines(only, body)
            yield from _of_own_lines(only, other)
        case [first, *_] if first.lineno > (holder.test.end_lineno or 0):
            yield block


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _empty(lines: list[str], span: range) -> None:
    """Leave `pass` of what stands on the lines of `span`."""
    first = lines[span.start - 1]
    indent = first[: len(first) - len(first.lstrip())]
    for number in span:
        line = lines[number - 1]
        lines[number - 1] = line[len(line.rstrip("\r\n")) :]
    lines[span.start - 1] = f"{indent}pass{lines[span.start - 1]}"


def _set_anew(tree: ast.Module) -> Iterator[str]:
    """The attributes that are set in a file, or items by such a name, but for those that are given
    what another of the same name has.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                same = getattr(value, "attr", getattr(value, "id", ""))
            case ast.AugAssign(target=target) | ast.For(target=target):
                targets, same = [target], ""
            case _:
                continue
        for each in (at for target in targets for at in ast.walk(target)):
            match each:
                case ast.Attribute(attr=name, ctx=ast.Store()) if name != same:
                    yield name
                case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store()):
                    yield name


def _set_once(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The names that a file gives a constant, and nothing else anywhere in it."""
    stored: dict[str, list[Any]] = {}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.alias(asname=str(name))
            ):
                stored.setdefault(name, []).append(node)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    stored.setdefault(name, []).extend([node, node])
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                if len(stored[name]) == 1:
                    yield name, value
