"""Where a training that has come far enough does something else in its steps: another loss, weights
frozen, longer samples, larger batches.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from autotune.source.loops.around_training import running_within
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.late_terms import losses_of
from autotune.source.loops.later_loader import HELD_OUT
from autotune.source.loops.later_passes import Passes
from autotune.source.loops.loss import BACKWARDS, names_in, stored_names
from autotune.source.loops.one_training import loops_of_one_training
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Function, Script, covers, last_name

# Names of how far a training has come, and of how much there is in a step.
_PROGRESS = re.compile(
    r"(^|_)(epoch|step|iter|iteration|itr|update|round|phase|stage)(_?(i|id|idx|index|no|count))?$"
)
_AMOUNT = re.compile(
    r"(^|_)(len|length|(?<!step_)size|resolution|frames|depth|horizon|points|bs|crop|unroll)(_|$)"
)
_FURTHER = ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.In
_OPTIONS = frozenset(
    ("args", "opt", "opts", "options", "cfg", "config", "conf", "flags", "hparams", "hps", "params")
)
_RANGES = frozenset(("range", "trange"))
_BUILD = frozenset(("DataLoader",))
_TURN_ON = frozenset(("requires_grad_", *BACKWARDS))


def later_stage(program: Program) -> str:
    """File and line of what makes the steps of `program` others once its training has come to some
    epoch or step; "" where its source shows none.

    That is a condition on an epoch or a step under which there is another loss or backward pass,
    weights are frozen or thawed, a loader is built, or how much there is in a step is set; an
    amount that is computed from an epoch or a step; and passes that have not come, under a
    condition on what the training itself changes.
    """
    places = (f"{script.path}:{node.lineno}" for script, node in later_stages(program))
    return next(places, "")


def later_stages(program: Program) -> Iterator[tuple[Script, ast.If | ast.Assign | ast.For]]:
    """All of those, each with the file that it is in."""
    inner, outer = loops_of_one_training(program)
    ran = running_within(program, [*inner, *outer])
    loaders, counters = _BUILD | _builders(program), _counters([*inner, *outer])
    passes = Passes(program, [*inner, *outer], ran)
    for script in program.scripts.values():
        work = _Work(program, script, loaders)
        stages = _by_stages(script, ran, set(inner), counters, work, passes)
        yield from ((script, at) for at in stages)


class _Work:
    """What in a file decides how much a step computes: backward passes, weights that are turned on
    and off, `loaders` that are built, and what its losses are put together from.
    """

    def __init__(self, program: Program, script: Script, loaders: frozenset[str]) -> None:
        self._loaders, self._called = loaders, _TURN_ON | loaders
        self._losses = _losses_in(program, script)

    def is_in(self, block: list[ast.stmt]) -> bool:
        """Whether the statements of `block` do some, or set how much is done."""
        given = given_code(block)
        return (
            not given.isdisjoint(self._losses)
            or any(name.rpartition(".")[2] == "requires_grad" for name in given)
            or any(map(_is_amount, given))
            or any(last_name(each.func) in self._called for at in block for each in calls_in(at))
        )

    def is_built_by(self, value: ast.expr, counted: Collection[str]) -> bool:
        """Whether `value` is a loader that is built of what such a number chooses."""
        if not (isinstance(value, ast.Call) and last_name(value.func) in self._loaders):
            return False
        chosen = (at.slice for at in ast.walk(value) if isinstance(at, ast.Subscript))
        return any(isinstance(at, ast.Name) and at.id in counted for at in chosen)


def _by_stages(
    script: Script,
    ran: set[ast.AST],
    inner: set[ast.AST],
    counters: Mapping[ast.AST, str],
    work: _Work,
    passes: Passes,
) -> Iterator[ast.If | ast.Assign | ast.For]:
    for node in (at for at in script.nodes if at in ran):
        counted = {counters[at] for at in script.ancestors(node) if at in counters}
        match node:
            case ast.If(test=test, body=then, orelse=other):
                asks = _asks_how_far(test, counted) or _asked_before(script, node, counted)
                tries = any(HELD_OUT.search(code.lower()) for code in code_in(test))
                asks = asks and not (tries or _is_set_there(script, test))
                open_ones = [
                    at for block in (then, other) if not passes.came(block) for at in block
                ]
                if (asks and work.is_in(open_ones)) or passes.come_later(script, node):
                    yield node
            case ast.For() if not inner.isdisjoint(script.ancestors(node)):
                if _repeats_by(script, node, counted):
                    yield node
            case ast.Assign(targets=[target], value=value):
                amount = _is_amount(ast.unparse(target)) and _goes_with(value, counted)
                if amount or work.is_built_by(value, counted):
                    yield node


def _repeats_by(script: Script, loop: ast.For, counted: Collection[str]) -> bool:
    """Whether `loop` of a step has as many turns as one of the counters `counted` says, or what is
    computed from one (`ahead = 1 + epoch`): later steps have more.
    """
    match loop.iter:
        case ast.Call(func=by, args=args) if last_name(by) in _RANGES and args:
            around = script.function(loop) or script.tree
            given = (at for at in ast.walk(around) if isinstance(at, ast.Assign))
            moved = {
                name
                for at in given
                if not names_in(at.value).isdisjoint(counted)
                and not any(isinstance(each, ast.Mod) for each in ast.walk(at.value))
                for name in stored_names(at)
            } | set(counted)
            by_counter = [not names_in(at).isdisjoint(moved) for at in args]
            return by_counter in ([True], [False, True])  # not `range(i * size, (i + 1) * size)`
    return False


def _is_set_there(script: Script, test: ast.expr) -> bool:
    """Whether `test` reads a number that its function only ever sets to constants: which of some
    parts it is at, and not how far a training has come.
    """
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


def _asked_before(script: Script, node: ast.If, counted: Collection[str]) -> bool:
    """Whether what `node` tests was given its value, in the same function, by such a comparison."""
    around = script.function(node) or script.tree
    asked = {
        name
        for at in ast.walk(around)
        if isinstance(at, ast.Assign) and _asks_how_far(at.value, counted)
        for name in stored_names(at)
    }
    return not asked.isdisjoint(code_in(node.test))


def _asks_how_far(test: ast.expr, counters: Collection[str]) -> bool:
    """Whether `test` compares how far the training has come; what comes again every so many steps
    (`step % 100 == 0`) does not.
    """
    parts = list(ast.walk(test))
    if any(isinstance(at, ast.Mod) for at in parts):
        return False
    return any(_is_far(at, counters) for at in parts if isinstance(at, ast.Compare))


def _is_far(compared: ast.Compare, counters: Collection[str]) -> bool:
    sides = (compared.left, *compared.comparators)
    constants = [side.value for side in sides if isinstance(side, ast.Constant)]
    exactly = isinstance(compared.ops[0], ast.Eq)
    # The first of all, or the last of an epoch, which comes again in the next.
    at_an_end = exactly and (0 in constants or any(map(_counts, sides)))
    return (
        isinstance(compared.ops[0], _FURTHER)
        and not (at_an_end or any(isinstance(each, str) for each in constants))
        and any(_is_counter(side, counters) for side in sides)
    )


def _counts(side: ast.expr) -> bool:
    """Whether `side` is put together from how many there are of something."""
    return any(last_name(call.func) == "len" for call in calls_in(side))


def _goes_with(value: ast.expr, counters: Collection[str]) -> bool:
    """Whether `value` is an amount that grows, or shrinks, with how far the training has come."""
    bounded = any(
        isinstance(at, ast.FloorDiv | ast.IfExp)
        or (isinstance(at, ast.Call) and last_name(at.func) in ("min", "max"))
        for at in ast.walk(value)
    )
    called = {call.func for call in calls_in(value)}  # round(...)
    counted = {at for call in calls_in(value) if _counts(call) for at in call.args}
    return bounded and any(
        _is_counter(at, counters)
        for at in ast.walk(value)
        if isinstance(at, ast.expr) and at not in called | counted
    )


def _is_counter(side: ast.expr, counters: Collection[str]) -> bool:
    """Whether it is a number that tells how far the training is, and no option (`args.step`)."""
    match side:
        case ast.Attribute(value=ast.Name(id=owner)) if owner.lower() in _OPTIONS:
            return False
    return isinstance(side, ast.Name | ast.Attribute) and (
        (isinstance(side, ast.Name) and side.id in counters)
        or _PROGRESS.search(last_name(side).lower()) is not None
    )


def _is_amount(code: str) -> bool:
    name = code.rpartition(".")[2].split("[")[0].lower()
    return _AMOUNT.search(name) is not None


def _counters(loops: Sequence[ast.AST]) -> dict[ast.AST, str]:
    """The loops of the training that count, and the number that each counts by; not those that
    slice the data into batches (`range(0, len(x), batch_size)`), whose last is smaller.
    """
    counted: dict[ast.AST, str] = {}
    for loop in loops:
        match loop:
            case ast.For(iter=ast.Call(func=by, args=[_, _, step])) if last_name(
                by
            ) in _RANGES and not isinstance(step, ast.Constant):
                continue
            case ast.For(target=ast.Name(id=name), iter=source) if "range" in ast.unparse(source):
                counted[loop] = name
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=by)):
                if last_name(by) == "enumerate":
                    counted[loop] = name
    return counted


def _builders(program: Program) -> frozenset[str]:
    """The program's functions that build a loader and give it back."""
    return frozenset(
        function.name
        for script in program.scripts.values()
        for function in script.nodes
        if isinstance(function, Function) and not HELD_OUT.search(function.name.lower())
        if _returns_loader(function)
    )


def _returns_loader(function: Function) -> bool:
    """Whether what `function` gives back is, or holds, a loader that it builds."""
    names = {
        name
        for at in ast.walk(function)
        if isinstance(at, ast.Assign) and _builds(at.value)
        for name in stored_names(at)
    }
    given = (at.value for at in ast.walk(function) if isinstance(at, ast.Return) and at.value)
    return any(_builds(value) or not names.isdisjoint(code_in(value)) for value in given)


def _builds(value: ast.expr) -> bool:
    return any(last_name(call.func) in _BUILD for call in calls_in(value))


def _losses_in(program: Program, script: Script) -> set[str]:
    """The code of what the losses are put together from whose backward passes were seen in the
    file.
    """
    lines = [place.line for place in program.places.backwards if place.path == script.path]
    found = set[str]()
    for call in script.calls:
        if last_name(call.func) in BACKWARDS and any(covers(call, line) for line in lines):
            body = (script.function(call) or script.tree).body
            owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            found = found.union(*(losses_of(body, loss) for loss in (*owner, *call.args)))
    return found
