"""How far a training has come, and whether a condition asks for it."""

import ast
import functools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from autotune.source.loops.condition import code_in
from autotune.source.loops.settled import is_progress, settled
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Script, covers, last_name, stored_names

_FURTHER = ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.In
RANGES = frozenset(("range", "trange"))


@dataclass(frozen=True)
class Counted:
    """What tells at some place how far the training is.

    Attributes:
        names: the variables that the loops of the training round it count by.
        by_batch: those of them by which the loops over batches do.
        again: what the loops of one step round it go through, which each step does alike.
        settled: what stays as it is while the program trains, by last names.
    """

    names: frozenset[str]
    by_batch: frozenset[str]
    again: frozenset[str]
    settled: Collection[str]

    def has(self, side: ast.AST) -> bool:
        """Whether `side` is a number that tells how far the training is, and no `args.step`."""
        if not isinstance(side, ast.Name | ast.Attribute):
            return False
        name = last_name(side)
        if isinstance(side, ast.Name) and (name in self.names or name in self.again):
            return name not in self.again
        return is_progress(side) and name not in self.settled


class HowFar:
    """What tells how far a program's training is, at each place.

    Args:
        program: with the place of its optimizer's step.
        inner: the loops of its training over batches.
        outer: those over epochs.
        ran: all that runs in them, as far as names tell.
    """

    def __init__(
        self,
        program: Program,
        inner: Sequence[ast.AST],
        outer: Sequence[ast.AST],
        ran: set[ast.AST],
    ) -> None:
        self._program, self._ran = program, ran
        self._inner = set(inner)
        self._training = {*inner, *outer}.difference(_within_a_step(program, [*inner, *outer]))
        self._counters = _counters([at for at in (*inner, *outer) if at in self._training])

    @functools.cached_property
    def _settled(self) -> frozenset[str]:
        return settled(self._program, self._ran)

    def at(self, script: Script, node: ast.AST) -> Counted:
        """What tells it at `node`."""
        around = list(script.ancestors(node))
        others = (at for at in around if isinstance(at, ast.For) and at not in self._training)
        known = {at: self._counters[at] for at in around if at in self._counters}
        return Counted(
            names=frozenset(known.values()),
            by_batch=frozenset(name for at, name in known.items() if at in self._inner),
            again=frozenset[str]().union(*(stored_names(at.target) for at in others)),
            settled=self._settled,
        )


def _within_a_step(program: Program, loops: Collection[ast.AST]) -> Iterator[ast.AST]:
    """Those of `loops` that each step goes through before the optimizer's."""
    step = program.places.step
    script = program.scripts.get(step.path) if step else None
    if step is None or script is None:
        return
    here = [at for at in script.nodes if isinstance(at, ast.For | ast.While) and at in loops]
    holding = [at for at in here if covers(at, step.line)]
    for loop in here:
        if loop not in holding and any(covers(at, loop.lineno) for at in holding):
            yield loop


def is_set_there(script: Script, test: ast.expr) -> bool:
    """Whether `test` reads a number that its function only sets to constants: the part it is at."""
    around = list(ast.walk(script.function(test) or script.tree))
    stored = Counter(
        at.id for at in around if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store)
    )
    constants = Counter(
        name
        for at in around
        if isinstance(at, ast.Assign) and isinstance(at.value, ast.Constant)
        for name in stored_names(at)
    )
    return any(stored[code] == constants[code] > 1 for code in code_in(test))


def asked_before(script: Script, node: ast.If, counted: Counted) -> bool:
    """Whether what `node` tests was given its value, in the same function, by such a comparison."""
    around = script.function(node) or script.tree
    asked = {
        name
        for at in ast.walk(around)
        if isinstance(at, ast.Assign) and asks_how_far(at.value, counted)
        for name in stored_names(at)
    }
    return not asked.isdisjoint(code_in(node.test))


def asks_how_far(test: ast.expr, counted: Counted) -> bool:
    """Whether `test` compares how far it has come: no `step % 100 == 0`, which comes again."""
    parts = list(ast.walk(test))
    if any(isinstance(at, ast.Mod) for at in parts):
        return False
    return any(_is_far(at, counted) for at in parts if isinstance(at, ast.Compare))


def _is_far(compared: ast.Compare, counted: Counted) -> bool:
    sides = (compared.left, *compared.comparators)
    constants = [side.value for side in sides if isinstance(side, ast.Constant)]
    exactly = isinstance(compared.ops[0], ast.Eq)
    # The first of all, or the last of an epoch, which comes again in the next.
    at_an_end = exactly and (0 in constants or any(map(_counts, sides)))
    return (
        isinstance(compared.ops[0], _FURTHER)
        and not (at_an_end or any(isinstance(each, str) for each in constants))
        and any(map(counted.has, sides))
    )


def _counts(side: ast.expr) -> bool:
    """Whether `side` is put together from how many there are of something."""
    return any(last_name(call.func) == "len" for call in calls_in(side))


def goes_with(value: ast.expr, counted: Counted) -> bool:
    """Whether `value` is an amount that moves with how far the training is; no rest of the data."""
    bounded = any(
        isinstance(at, ast.FloorDiv | ast.IfExp)
        or (isinstance(at, ast.Call) and last_name(at.func) in ("min", "max"))
        for at in ast.walk(value)
    )
    called = {call.func for call in calls_in(value)}  # round(...)
    lengths = {at for call in calls_in(value) if _counts(call) for at in call.args}
    sums = (at for at in ast.walk(value) if isinstance(at, ast.BinOp))
    left = (at for at in sums if isinstance(at.op, ast.Sub) and _counts(at.left))
    apart = called | lengths | {at for each in left for at in ast.walk(each)}
    return bounded and any(counted.has(at) for at in ast.walk(value) if at not in apart)


def _counters(loops: Sequence[ast.AST]) -> dict[ast.AST, str]:
    """The loops that count, and by what; none that slices data (`range(0, len(x), size)`)."""
    counted: dict[ast.AST, str] = {}
    for loop in loops:
        match loop:
            case ast.For(iter=ast.Call(func=by, args=[_, _, step])) if last_name(
                by
            ) in RANGES and not isinstance(step, ast.Constant):
                continue
            case ast.For(target=ast.Name(id=name), iter=source) if "range" in ast.unparse(source):
                counted[loop] = name
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=by)):
                if last_name(by) == "enumerate":
                    counted[loop] = name
    return counted
