"""What a training does seldom (`if step % 500 == 0`), and a text in which that comes sooner."""

import ast
import itertools
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from autotune.source.calls.writes import stored_in
from autotune.source.edits import Place, Places
from autotune.source.loops.around_training import (
    loops_of_training,
    own_loops,
    running,
    running_meanwhile,
)
from autotune.source.loops.beginnings import (
    beginnings,
    begun_sooner,
    counters,
    hurried,
    passed_sooner,
    thresholds,
    waits,
)
from autotune.source.program import BYTE_ORDER_MARK, Change, Program, parsed, replacing
from autotune.source.script import Function, Script

# Of what functions that the loops call count by; in a loop itself whatever is counted is its own.
_COUNTED = re.compile(r"(step|iter|itr|iteration|epoch|update|round|episode|batch)", re.IGNORECASE)
# What runs in a step itself, where a remainder seldom has to do with how far the training is.
_IN_A_STEP = frozenset(
    ("forward", "__call__", "__getitem__", "__getitems__", "__iter__", "__init__")
)
# What gives the same items, of whatever it is given.
_WRAPPERS = frozenset(("enumerate", "list", "tqdm", "track"))
_PATH = "<text>"
_TESTS = ast.Compare | ast.BoolOp | ast.If | ast.IfExp
_TEXT = ast.JoinedStr | ast.Tuple | ast.Dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Seldom:
    """Code of one file: remainders by which its training tells that it is time for something, the
    comparisons by which it begins something else, with a count or with another number that its
    training moves, and the heads of its loops over batches, of those among them that it may leave
    before their end, and of those round them.
    """

    remainders: frozenset[str]
    stages: frozenset[str] = frozenset()
    thresholds: frozenset[str] = frozenset()
    inner: frozenset[str]
    left: frozenset[str] = frozenset()
    outer: frozenset[str]


def seldom(program: Program, seen: Collection[Place] = ()) -> dict[str, Seldom]:
    """What the loops have of it, and what they call, or was `seen` to run, by file."""
    inner, outer = own_loops(program)
    loops = [*itertools.chain(*loops_of_training(program))]  # a framework's as well
    own = {node for loop in loops for node in ast.walk(loop)}
    ran = running(program, loops) | (running_meanwhile(program, seen) if seen else set())
    names = counters([*inner, *outer], own | ran)
    given, waiting = _moved(own | ran), waits(own | ran)
    found = dict[str, Seldom]()
    for path, script in program.scripts.items():
        each = Seldom(
            remainders=frozenset(
                ast.unparse(at)
                for at in _remainders(script)
                if at in own or (at in ran and _is_progress(script, at))
            ),
            stages=frozenset(
                ast.unparse(at)
                for at in beginnings(script, names, waiting)
                if at in own or (at in ran and _is_between_steps(script, at))
            ),
            thresholds=frozenset(
                ast.unparse(at)
                for at in thresholds(script, names, given, waiting)
                if at in own or (at in ran and _is_between_steps(script, at))
            ),
            inner=frozenset(_heads(script, inner)),
            left=frozenset(_heads(script, [*filter(_may_be_left, inner)])),
            outer=frozenset(_heads(script, outer)),
        )
        if each != Seldom(remainders=frozenset(), inner=frozenset(), outer=frozenset()):
            found[path] = each
    return found


def sooner(text: str, what: Seldom, *, interval: int, batches: int, epochs: int) -> str:
    """`text` (edited since, perhaps) with intervals, stages and loops cut; lines stay in place."""
    program = parsed({_PATH: text}, Places(), _PATH)
    script = program.scripts.get(_PATH)
    if script is None:
        return text
    changes = [
        change
        for at in _remainders(script)
        if ast.unparse(at) in what.remainders
        for change in _shortening(script, at, interval)
    ]
    begun = (at for at in script.nodes if isinstance(at, ast.Compare))
    changes += [
        begun_sooner(script, at, interval) for at in begun if ast.unparse(at) in what.stages
    ]
    compared = (at for at in script.nodes if isinstance(at, ast.Compare))
    changes += [
        passed_sooner(script, at, interval)
        for at in compared
        if ast.unparse(at) in what.thresholds - what.stages
    ]
    for loop in (at for at in script.nodes if isinstance(at, ast.For)):
        if _head(script, loop) in what.inner:
            cut = _cut(script, loop, batches, math.ceil(batches / 2))
        elif _head(script, loop) in what.outer:
            cut = _cut(script, loop, epochs, epochs - 1)
        else:
            continue
        outside = (each for each in changes if each.end <= cut.start or cut.end <= each.start)
        changes = [*outside, cut]  # what it goes over may be chosen by a stage
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    return mark + program.changed(changes).scripts[_PATH].text


def _heads(script: Script, loops: list[ast.AST]) -> Iterator[str]:
    for at in script.nodes:
        if isinstance(at, ast.For) and at in loops and not isinstance(at.iter, ast.Tuple):
            yield _head(script, at)


def _moved(ran: Collection[ast.AST]) -> frozenset[str]:
    """The code of what is given a value there, other than by the head of a loop."""
    heads = {at for loop in ran if isinstance(loop, ast.For) for at in ast.walk(loop.target)}
    return frozenset(ast.unparse(at) for at in stored_in(ran) if at not in heads)


def _may_be_left(loop: ast.AST) -> bool:
    waiting = [*ast.iter_child_nodes(loop)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break | ast.Return):
            return True
        if not isinstance(node, ast.For | ast.While | Function | ast.Lambda):  # their own
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _head(script: Script, loop: ast.For) -> str:
    """By which `loop` is known again: another in another function may read the same."""
    function = script.function(loop)
    name = function.name if function else ""
    return f"{name}: {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"


def _cut(script: Script, loop: ast.For, most: int, first: int) -> Change:
    """No more than the `first` of what `loop` goes over, and some of what follows."""
    items = _unwrapped(loop.iter)
    return replacing(script, items, f"{hurried('few')}({script.code(items)}, {most}, {first})")


def _unwrapped(items: ast.expr) -> ast.expr:
    match items:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner, *_]) if (
            name in _WRAPPERS and not isinstance(inner, ast.Starred | ast.GeneratorExp)
        ):
            return _unwrapped(inner)
    return items


def _remainders(script: Script) -> Iterator[ast.BinOp]:
    """Remainders of numbers, more than 2 as far as that is written, that decide something."""
    for node in script.nodes:
        match node:
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                if isinstance(left, ast.JoinedStr) or isinstance(right, _TEXT):
                    continue
                numbers = (at.value for at in (left, right) if isinstance(at, ast.Constant))
                large = all(isinstance(each, int) and each > 2 for each in numbers)
                if large and _decides(script, node):
                    yield node


def _decides(script: Script, remainder: ast.BinOp) -> bool:
    above = next(script.ancestors(remainder))
    return isinstance(above, _TESTS) or (
        isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
    )


def _is_progress(script: Script, remainder: ast.BinOp) -> bool:
    counts = _COUNTED.search(ast.unparse(remainder.left)) is not None
    return counts and _is_between_steps(script, remainder)


def _is_between_steps(script: Script, node: ast.expr) -> bool:
    function = script.function(node)
    return function is not None and function.name not in _IN_A_STEP


def _shortening(script: Script, remainder: ast.BinOp, most: int) -> Iterator[Change]:
    """Of the remainder, and of what it is compared with (`step % n == n - 1`)."""
    above = next(script.ancestors(remainder))
    around = above if isinstance(above, ast.Compare) else remainder
    code = ast.dump(remainder.right)
    shorter = f"max(1, min({script.code(remainder.right)}, {most}))"  # of a short epoch it may be 0
    for at in ast.walk(around):
        if isinstance(at, ast.expr) and ast.dump(at) == code:
            text = shorter
        elif (
            at is not around and isinstance(at, ast.Constant) and at.value and _is_side(around, at)
        ):
            text = f"{script.code(at)} % {shorter}"
        else:
            continue
        yield replacing(script, at, text)


def _is_side(around: ast.AST, at: ast.expr) -> bool:
    """Whether `at` is one side of a comparison of two."""
    match around:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return at in (left, right)
    return False
