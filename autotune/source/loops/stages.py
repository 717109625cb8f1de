"""Where a training that has come far enough does something else: another loss, larger batches."""

import ast
import re
from collections.abc import Collection, Iterator, Set

from autotune.source.loops.around_training import loops_of_one_training, running_within
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.how_far import (
    RANGES,
    Counted,
    HowFar,
    asked_before,
    asks_how_far,
    goes_with,
    is_set_there,
)
from autotune.source.loops.late_terms import losses_of, without
from autotune.source.loops.later import HELD_OUT, Passes
from autotune.source.loops.loss import BACKWARDS
from autotune.source.loops.settled import is_option
from autotune.source.named import values_by_name
from autotune.source.program import Program, first_of, holds
from autotune.source.reach import calls_in, defaults_of
from autotune.source.script import Function, Script, last_name, names_in, stored_names

# Names of how much there is in a step.
_AMOUNT = re.compile(
    r"(^|_)(len|length|(?<!step_)size|resolution|frames|depth|horizon|points|bs|crop|unroll)(_|$)"
)
_BUILD = frozenset(("DataLoader",))
_TURN_ON = frozenset(("requires_grad_", *BACKWARDS))
_UNTRAINED = frozenset(("no_grad", "inference_mode"))
# What gives a number of numbers, and of no tensors where these are counters.
_OF_NUMBERS = frozenset(
    (
        *("abs", "float", "int", "len", "max", "min", "round"),
        *("cos", "exp", "pow", "sin", "sqrt", "tanh"),
    )
)


def later_stage(program: Program) -> str:
    """What makes steps others once the training has come to some epoch or step: a condition on it
    under which there is another loss or backward pass, weights are frozen or thawed, a loader is
    built, or an amount set; an amount computed from it; and passes that have not come, under a
    condition on what the training itself changes.
    """
    return first_of(later_stages(program))


def later_stages(program: Program) -> Iterator[tuple[Script, ast.If | ast.Assign | ast.For]]:
    """All of those, each with the file that it is in."""
    inner, outer = loops_of_one_training(program)
    ran = running_within(program, [*inner, *outer])
    loaders, how_far = _BUILD | _builders(program), HowFar(program, inner, outer, ran)
    passes = Passes(program, [*inner, *outer], ran)
    for script in program.scripts.values():
        work = _Work(program, script, loaders)
        for node in (at for at in script.nodes if at in ran):
            if not isinstance(node, ast.If | ast.Assign | ast.For):
                continue
            counted = how_far.at(script, node)
            if isinstance(node, ast.For):
                within = not set(inner).isdisjoint(script.ancestors(node))
                found = within and _repeats_by(script, node, counted)
            elif isinstance(node, ast.If):
                found = _turns(script, node, counted, work, passes)
            else:
                found = _sets_more(node, counted, work)
            if found:
                yield script, node


class _Work:
    """What in a file decides how much a step computes: passes, weights, `loaders`, losses."""

    def __init__(self, program: Program, script: Script, loaders: frozenset[str]) -> None:
        self._program, self._script = program, script
        self._loaders, self._called = loaders, _TURN_ON | loaders
        self._losses = _losses_in(program, script)

    def is_in(self, block: list[ast.stmt], counted: Counted) -> bool:
        """Whether the statements of `block` do some, or set how much is done."""
        given = given_code(block)
        losses = given_code([at for at in block if not _is_untrained(at)]) & self._losses
        return (
            bool(losses - _coefficients(self._program, self._script, losses, counted))
            or any(name.rpartition(".")[2] == "requires_grad" for name in given)
            or any(map(_is_amount, given))
            or any(last_name(each.func) in self._called for at in block for each in calls_in(at))
        )

    def is_built_by(self, value: ast.expr, counted: Counted) -> bool:
        """Whether `value` is a loader that is built of what such a number chooses, but samples."""
        if not (isinstance(value, ast.Call) and last_name(value.func) in self._loaders):
            return False
        samples = list[ast.expr]()
        if last_name(value.func) in _BUILD:
            named = (each.value for each in value.keywords if each.arg == "dataset")
            samples = [*value.args[:1], *named]
        chosen = (at.slice for at in without(value, samples) if isinstance(at, ast.Subscript))
        return any(isinstance(at, ast.Name) and at.id in counted.names for at in chosen)


def _is_untrained(statement: ast.stmt) -> bool:
    """Whether nothing that `statement` computes is trained on."""
    contexts = statement.items if isinstance(statement, ast.With) else []
    return any(
        last_name(call.func) in _UNTRAINED for at in contexts for call in calls_in(at.context_expr)
    )


def _turns(script: Script, branch: ast.If, counted: Counted, work: _Work, passes: Passes) -> bool:
    """Whether what `branch` does, or leaves, makes later steps others."""
    test = branch.test
    asks = asks_how_far(test, counted) or asked_before(script, branch, counted)
    tries = any(HELD_OUT.search(code.lower()) for code in code_in(test))
    asks = asks and not (tries or is_set_there(script, test))
    blocks = (branch.body, branch.orelse)
    open_ones = [at for block in blocks if not passes.came(block) for at in block]
    return (asks and work.is_in(open_ones, counted)) or passes.come_later(script, branch)


def _sets_more(given: ast.Assign, counted: Counted, work: _Work) -> bool:
    """Whether `given` is an amount, or a loader, that goes with how far the training has come."""
    match given:
        case ast.Assign(targets=[target], value=value):
            amount = _is_amount(ast.unparse(target)) and goes_with(value, counted)
            return amount or work.is_built_by(value, counted)
    return False


def _repeats_by(script: Script, loop: ast.For, counted: Counted) -> bool:
    """Whether `loop` of a step has more turns later, by a counter (`ahead = 1 + epoch`)."""
    match loop.iter:
        case ast.Call(func=by, args=args) if last_name(by) in RANGES and args:
            around = script.function(loop) or script.tree
            given = (at for at in ast.walk(around) if isinstance(at, ast.Assign))
            moved = {
                name
                for at in given
                if _is_by(at.value, counted.names, counted)
                and not any(isinstance(each, ast.Mod) for each in ast.walk(at.value))
                for name in stored_names(at)
            } | counted.names
            by_counter = [_is_by(at, moved, counted) for at in args]
            return by_counter in ([True], [False, True])  # not `range(i * size, (i + 1) * size)`
    return False


def _is_by(value: ast.expr, moved: Set[str], counted: Counted) -> bool:
    """Whether `value` is computed from `moved`, and not picked by a batch's count (`lines[i]`)."""
    picks = [
        at
        for at in ast.walk(value)
        if isinstance(at, ast.Subscript) and names_in(at.slice) & counted.by_batch
    ]
    read = (at.id for at in without(value, picks) if isinstance(at, ast.Name))
    return not moved.isdisjoint(read)


def _is_amount(code: str) -> bool:
    name = code.rpartition(".")[2].split("[")[0].lower()
    return _AMOUNT.search(name) is not None


def _builders(program: Program) -> frozenset[str]:
    """The program's functions that build a loader and give it back."""
    return frozenset(
        function.name
        for _, function in program.functions()
        if not HELD_OUT.search(function.name.lower())
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
    """What the losses of this file's seen backward passes are put together from."""
    found = set[str]()
    for call in script.calls:
        if last_name(call.func) in BACKWARDS and holds(script, call, program.places.backwards):
            body = (script.function(call) or script.tree).body
            owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            found = found.union(*(losses_of(body, loss) for loss in (*owner, *call.args)))
    return found


def _coefficients(
    program: Program, script: Script, given: Collection[str], counted: Counted
) -> set[str]:
    """The code of those `given` that are only ever numbers, and that no condition asks for."""
    names = {code: code.rpartition(".")[2] for code in given}
    numbers = {
        code for code, name in names.items() if _are_numbers(script, name, counted, frozenset())
    }
    asked = _asked_for(program) if numbers else set[str]()
    return {code for code in numbers if names[code] not in asked}


def _asked_for(program: Program) -> set[str]:
    """The last names of what decides on something."""
    found = set[str]()
    for _, node in program.nodes():
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                tests = [test]
            case ast.comprehension(ifs=tests) | ast.BoolOp(values=tests):
                pass
            case _:
                continue
        found |= {code.rpartition(".")[2] for test in tests for code in code_in(test)}
    return found


def _are_numbers(script: Script, name: str, counted: Counted, known: frozenset[str]) -> bool:
    """Whether all that the file sets `name` to are numbers, as far as `known` names are."""
    values = values_by_name(script).get(name, ())
    return bool(values) and all(
        name in known or _is_plain_number(script, value, counted, known | {name})
        for value in values
    )


def _is_plain_number(
    script: Script, value: ast.expr, counted: Counted, known: frozenset[str]
) -> bool:
    match value:
        case ast.Constant():
            return not isinstance(value.value, str)
        case ast.BinOp(left=left, op=ast.Div() | ast.FloorDiv(), right=right) if all(
            last_name(call.func) in _OF_NUMBERS for call in calls_in(right)
        ):
            parts = [left]
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.IfExp(body=then, orelse=other):
            parts = [then, other]
        case ast.Call(func=by, args=args) if last_name(by) in _OF_NUMBERS:
            parts = args
        case ast.Compare():
            return True
        case ast.Name() | ast.Attribute():
            return (
                counted.has(value)
                or is_option(value)
                or _is_default(script, value)
                or _are_numbers(script, last_name(value), counted, known)
            )
        case _:
            return False
    return all(_is_plain_number(script, at, counted, known) for at in parts)


def _is_default(script: Script, value: ast.expr) -> bool:
    """Whether `value` is a parameter that is a number where nothing is given for it."""
    function = script.function(value)
    default = defaults_of(function).get(last_name(value)) if function else None
    return isinstance(default, ast.Constant) and isinstance(default.value, int | float)
