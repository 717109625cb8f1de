"""What a program's options leave out of its text: branches that a run with these never comes to."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from autotune.source.edits import Place
from autotune.source.options.lines import empty, put
from autotune.source.options.values import UNKNOWN, Values, looked_at, parsing, set_later
from autotune.source.program import BYTE_ORDER_MARK
from autotune.source.reach import argument, defaults_of
from autotune.source.script import Function, first_line, last_name, stored_names, tree_of
from autotune.source.standing import Standing


def without_left_out(
    texts: Mapping[str, str],
    options: Mapping[str, Any],
    places: Iterable[Place | None],
    standing: Iterable[Standing] = (),
) -> dict[str, str]:
    """`texts` by path, each branch emptied that the values of `options` exclude (`if args.mixup:`
    without `--mixup`), or what all calls of a function give it, or what was read in one that was
    being run (`standing`), and its condition put as what it comes out as; lines stay where they
    are. An option that the text may set once it trains excludes none, whatever object it is set of,
    and a branch stays that has one of `places`, which a run came to.
    """
    found = {path: text.removeprefix(BYTE_ORDER_MARK) for path, text in texts.items()}
    trees = {path: tree_of(text) for path, text in found.items()}
    parses = parsing(trees.values())
    changed, of_old = (
        {name for tree in trees.values() for name in set_later(tree, parses, made=made)}
        for made in (True, False)
    )
    known = {name: value for name, value in options.items() if name not in changed}
    read = _read(trees, standing, of_old)
    values = {path: Values(tree, known, changed, read[path]) for path, tree in trees.items()}
    always = _given_always([(tree, values[path]) for path, tree in trees.items()])
    reached = {(place.path, place.line) for place in places if place is not None}
    for path, tree in trees.items():
        lines = list(StringIO(found[path], newline=""))
        for test, holds, block in _settled(tree, values[path], always):
            span = (
                range(first_line(block[0]), (block[-1].end_lineno or 0) + 1) if block else range(0)
            )
            if any((path, line) in reached for line in span):
                continue
            if test is not None:
                put(lines, test, str(holds))
            if block:
                empty(lines, span)
        changed_text = "".join(lines)
        if tree_of(changed_text).body:  # else it is not Python any more
            found[path] = changed_text
    return found


def _read(
    trees: Mapping[str, ast.Module], standing: Iterable[Standing], changed: set[str]
) -> dict[str, dict[int, dict[str, Any]]]:
    """By file and function's line what was read in it; nothing of one that may run twice."""
    calls = Counter(
        at.func.id
        for tree in trees.values()
        for at in ast.walk(tree)
        if isinstance(at, ast.Call) and isinstance(at.func, ast.Name)
    )
    names = {
        (path, at.lineno): at.name
        for path, tree in trees.items()
        for at in ast.walk(tree)
        if isinstance(at, Function)
    }
    found: dict[str, dict[int, dict[str, Any]]] = {path: {} for path in trees}
    for each in standing:
        once = calls[names.get((each.path, each.line), "")] < 2
        if each.path in found and once and each.line not in found[each.path]:
            found[each.path][each.line] = looked_at(each.values, each.there, changed)
        elif each.path in found:
            found[each.path][each.line] = {}
    return found


_Settled = tuple[ast.expr | None, bool, list[ast.stmt]]


def _settled(
    node: ast.AST, values: Values, always: Mapping[ast.AST, Mapping[str, Any]]
) -> Iterator[_Settled]:
    """The conditions in `node` that come out the same in all of a run: test, outcome, block."""
    for inner in ast.iter_child_nodes(node):
        there = values
        if isinstance(inner, Function):
            there = values.inside(inner, always.get(inner, {}))
        holds = there.of(inner.test) if isinstance(inner, ast.If) else UNKNOWN
        if not isinstance(inner, ast.If) or holds is UNKNOWN:
            yield from _settled(inner, there, always)
            continue
        test = inner.test if values.counts(inner.test) else None
        stays, goes = (inner.body, inner.orelse) if holds else (inner.orelse, inner.body)
        yield from _of_own_lines(inner, test, bool(holds), goes)
        yield from _settled(ast.Module(body=stays, type_ignores=[]), values, always)


def _of_own_lines(
    holder: ast.If, test: ast.expr | None, holds: bool, block: list[ast.stmt]
) -> Iterator[_Settled]:
    """`block` of `holder`; the blocks of an `elif`, which is no statement to be emptied."""
    match block:
        case [ast.If(body=body, orelse=other) as only] if only.col_offset == holder.col_offset:
            yield from _of_own_lines(only, None, holds, body)
            yield from _of_own_lines(only, None, holds, other)
            if test is not None:
                yield test, holds, []
        case [first, *_] if first.lineno > (holder.test.end_lineno or 0):
            yield test, holds, block
        case [] if test is not None:
            yield test, holds, []


def _given_always(files: Sequence[tuple[ast.Module, Values]]) -> dict[ast.AST, dict[str, Any]]:
    """By function, the parameters for which each of its calls in `files` (one or more) gives the
    same known value, or leaves the default; none of a function that is handed on, or decorated, or
    whose name others have, and none that it sets itself.
    """
    functions: dict[str, list[tuple[Function, Values, bool]]] = {}
    calls: dict[str, list[tuple[ast.Call, Values]]] = {}
    handed_on = set[str]()
    for tree, values in files:
        methods = {
            at for kind in ast.walk(tree) if isinstance(kind, ast.ClassDef) for at in kind.body
        }
        called = {at.func: at for at in ast.walk(tree) if isinstance(at, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                functions.setdefault(node.name, []).append((node, values, node in methods))
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                if node in called:
                    calls.setdefault(last_name(node), []).append((called[node], values))
                else:
                    handed_on.add(last_name(node))
    return {
        found[0][0]: dict(_given(*found[0], calls[name]))
        for name, found in functions.items()
        if len(found) == 1 and name in calls.keys() - handed_on
        if not (found[0][0].decorator_list or name.startswith("__"))
    }


def _given(
    function: Function, values: Values, bound: bool, calls: Sequence[tuple[ast.Call, Values]]
) -> Iterator[tuple[str, Any]]:
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args][bound:]
    defaults = defaults_of(function)
    stored = stored_names(function)
    for name in (each.arg for each in (*places, *arguments.kwonlyargs)):
        of = []
        for call, where in calls:
            told = argument(call, function, name, bound=bound)
            if told is None:
                of.append(values.of(defaults[name]) if name in defaults else UNKNOWN)
            else:
                of.append(UNKNOWN if told is call else where.of(told))
        known = of[0] is not UNKNOWN and all(type(each) is type(of[0]) for each in of)
        if name not in stored and known and all(each == of[0] for each in of):
            yield name, of[0]
