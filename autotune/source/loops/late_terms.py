"""Parts of a loss that come only later: those of an `if` that may not have been taken so far."""

import ast
from collections.abc import Iterator, Sequence, Set

from autotune.source.calls.writes import values_given
from autotune.source.loops.condition import are_options, code_in, given_code
from autotune.source.loops.loss import receiver_of
from autotune.source.named import calls_named
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import argument, calls_in, is_bound
from autotune.source.script import LOOPS, Script, last_name, parameters, stored_names

# fmt: off
# Calls that give a loss of several, or of one another size; what others are given is no loss yet.
_SUMMING = frozenset({
    "add", "append", "cat", "extend", "mean", "mul", "scale", "squeeze", "stack", "sum", "values",
})
# What tells of what kind something is: it is that in each step.
_OF_KIND = frozenset({
    "callable", "dim", "getattr", "hasattr", "is_available", "is_tensor", "isinstance", "len",
    "type",
})
# Methods of texts and of options, which answer alike as long as these are the same.
_OF_WORDS = frozenset({
    "casefold", "count", "endswith", "find", "get", "items", "keys", "lower", "replace", "split",
    "startswith", "strip", "upper", "values",
})
# What makes of a tensor as much as there is of something in it.
_CHOOSING = frozenset(("argwhere", "flatnonzero", "masked_select", "nonzero", "unique", "where"))
# Methods, by how their names begin, that are done before anything trains.
_SETTING_UP = (
    "build", "configure", "create", "init", "load", "make", "parse", "post_init", "prepare",
    "set_up", "setup",
)
# fmt: on
FINITE = frozenset({"isfinite", "isinf", "isnan"})
_MOST_CALLERS = 4  # one above the other


def late_term(program: Program, backward: Call, loop: ast.For | ast.While) -> str:
    """Where, in `loop` before `backward`, a condition that may change sets part of the loss."""
    script = backward.script
    inner = script.statements_to(backward.node)
    before = loop.body[: loop.body.index(inner[inner.index(loop) - 1])]
    losses = losses_of(before, receiver_of(backward))
    known = {ast.unparse(at.test) for at in inner[: inner.index(loop)] if isinstance(at, ast.If)}
    for node in (at for statement in before for at in ast.walk(statement)):
        match node:
            case ast.If(test=test, body=then, orelse=other):
                decides = bool(given_code([*then, *other]) & losses)
            case ast.IfExp(test=test):
                decides = _is_of_a_loss(script, node, losses)
            case _:
                continue
        trained = ast.unparse(test) in known and not any(calls_in(test))
        if decides and not trained and _may_change(program, script, loop, test):
            return script.at(node)
    return ""


def losses_of(before: Sequence[ast.stmt], loss: ast.expr) -> set[str]:
    """The code of what `loss` is put together from, itself included, in the statements `before`."""
    pairs = [pair for at in before for node in ast.walk(at) for pair in _given(node)]
    losses = set(_parts(loss))
    while (
        more := {part for code, value in pairs if code in losses for part in _parts(value)} - losses
    ):
        losses |= more
    return losses


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What `node` gives a value, or adds to, each with the value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            given, values = targets, [value]
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            given, values = [target], [value]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            given, values = [target], [value]
        case ast.Call(func=ast.Attribute(value=target, attr="append" | "extend"), args=values):
            given = [target]
        case _:
            return
    for target in given:
        code = ast.unparse(target.value if isinstance(target, ast.Subscript) else target)
        yield from ((code, value) for value in values)


def _parts(value: ast.AST) -> Iterator[str]:
    """The code of the variables and attributes that `value` is a sum, a share or a choice of."""
    if isinstance(value, ast.Call) and last_name(value.func) not in _SUMMING:
        return
    if isinstance(value, ast.Name | ast.Attribute):
        yield ast.unparse(value)
    chosen = getattr(value, "test" if isinstance(value, ast.IfExp) else "slice", None)
    for child in ast.iter_child_nodes(value):
        if child is not chosen:  # by which of them it is told, and no part of it
            yield from _parts(child)


def _is_of_a_loss(script: Script, node: ast.AST, losses: Set[str]) -> bool:
    """Whether the value of `node` is a part of what one of the `losses` is given."""
    for at in script.ancestors(node):
        if isinstance(at, ast.Call) and last_name(at.func) not in _SUMMING:
            return False
        if any(code in losses for code, _ in _given(at)):
            return True
    return False


def _may_change(
    program: Program, script: Script, loop: ast.For | ast.While, test: ast.expr
) -> bool:
    """Whether `test`, asked in `loop`, may come out otherwise after some steps."""
    kinds = [at for at in ast.walk(test) if asks_for_kind(at, loop.body)]
    others = list(without(test, kinds))
    if any(isinstance(at, ast.Call) and not _asks_for_words(at) for at in others):
        return True
    read = {ast.unparse(at) for at in others if isinstance(at, ast.Name | ast.Attribute)}
    asked = read.union(*(code_in(at) for at in kinds if isinstance(at, ast.expr)))
    own = {loop.target} if isinstance(loop, ast.For) else set[ast.expr]()
    inner = {at.target for at in ast.walk(loop) if isinstance(at, ast.For)}
    passed = set[str]().union(*map(stored_names, inner - own))
    given = given_code(loop.body).union(*map(stored_names, own))
    return bool(read & given - passed) or changes(program, script, loop, asked)


def _asks_for_words(call: ast.Call) -> bool:
    """Whether it is `name.lower()`, or `options.get("aux")`: and not what a queue gives."""
    match call.func:
        case ast.Attribute(attr="get", value=options):
            return bool(call.args) and are_options(options)
        case ast.Attribute(attr=method):
            return method in _OF_WORDS
    return False


def asks_for_kind(node: ast.AST, around: Sequence[ast.stmt]) -> bool:
    """Whether `node` asks what kind something is of, the same in each step, or if it is finite."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()]):
            return True
        case ast.Attribute(attr="ndim"):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if any(
            _chooses(value) for at in around for value in values_given(at, name)
        ):
            return False  # how many there are in this batch
        case ast.Call(func=function):
            names = {last_name(call.func) for call in calls_in(node)}
            return last_name(function) in _OF_KIND or bool(names & FINITE)
    return False


def _chooses(value: ast.expr) -> bool:
    """Whether a condition chooses `value` of a tensor: `(kind == 2).nonzero()`, `x[kind == 2]`."""
    by_condition = (
        isinstance(at, ast.Subscript)
        and any(isinstance(each, ast.Compare) for each in ast.walk(at.slice))
        for at in ast.walk(value)
    )
    return any(last_name(call.func) in _CHOOSING for call in calls_in(value)) or any(by_condition)


def without(node: ast.AST, left_out: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """What is in `node` and not in one of those `left_out`."""
    if node not in left_out:
        yield node
        for child in ast.iter_child_nodes(node):
            yield from without(child, left_out)


def changes(program: Program, script: Script, at: ast.AST, names: Set[str], depth: int = 0) -> bool:
    """Whether one of `names` may be another in a later turn of the loops round `at`, or call."""
    attributes = {name.rpartition(".")[2] for name in names if "." in name}
    if names & _given_around(script, at) | names & _shared(program):
        return True
    if attributes & _changed_attributes(program):
        return True
    function = script.function(at)
    if function is None or depth == _MOST_CALLERS:
        return False
    bound = is_bound(script, function)
    return any(
        changes(program, caller, call, code_in(told), depth + 1)
        for caller, call in calls_named(program, function.name)
        for name in names & set(parameters(function)[bound:])
        if (told := argument(call, function, name, bound=bound)) is not None
    )


def _given_around(script: Script, at: ast.AST) -> set[str]:
    """What is given a value in the loops round `at`, in its function, besides in `at` itself."""
    inner = script.statements_to(at)
    loops = [index for index, each in enumerate(inner) if isinstance(each, LOOPS) and index]
    found: set[str] = set()
    for index, statement in enumerate(inner[: max(loops, default=0)]):
        found |= given_code([each for each in script.block(statement) if each is not statement])
        around = inner[index + 1]
        if isinstance(around, ast.For | ast.AsyncFor):
            found |= stored_names(around.target)
    return found


def _shared(program: Program) -> set[str]:
    """The variables that functions of the program give a value to outside of themselves."""
    return {
        name
        for _, node in program.nodes()
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }


def _changed_attributes(program: Program) -> set[str]:
    """The attributes that are set in a loop, or by a method that does more than to set up."""
    return {
        node.attr
        for script, node in program.nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if changes_later(script, node)
    }


def changes_later(script: Script, given: ast.Attribute) -> bool:
    """Whether `given` is set in a loop, or by a method that does more than to set its object up."""
    function = script.function(given)
    if any(isinstance(at, LOOPS) for at in script.statements_to(given)):
        return True
    by_itself = function is not None and is_bound(script, function)
    sets_up = function is not None and function.name.strip("_").startswith(_SETTING_UP)
    return by_itself and last_name(given.value) == "self" and not sets_up
