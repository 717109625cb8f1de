"""What a training begins, or ends, at a number of steps, and a text in which it begins sooner."""

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from autotune.source.calls.writes import given_values
from autotune.source.loops.around_training import own_loops, running
from autotune.source.loops.counters import counted
from autotune.source.program import Change, Program, replacing
from autotune.source.script import Script, last_name, names_in

# By which frameworks count for the program.
_OF_FRAMEWORKS = ("global_step", "current_epoch", "num_updates", "epoch")
_PASSES = ast.Gt | ast.GtE | ast.Lt | ast.LtE
_OPERATORS = ast.Eq | _PASSES
_ENDING = (ast.Break, ast.Return, ast.Raise)
_HURRIED = "autotune.source.loops.hurried"
_ENDS = re.compile(r"done|stop|end|finish|last|termina|trunca")
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
_RAISED = frozenset({"SystemExit", "KeyboardInterrupt", "StopIteration"})


def counters(loops: Collection[ast.AST], ran: Collection[ast.AST]) -> frozenset[str]:
    """What these `loops` count by, and what is counted up in what `ran` in them, by names."""
    names = set(_OF_FRAMEWORKS)
    for loop in loops:
        match loop:
            case ast.For(target=ast.Name(id=name)):
                names.add(name)
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), _])):
                names.update({name} if "enumerate(" in ast.unparse(loop.iter) else ())
    names.update(map(last_name, counted(ran)))
    return frozenset(names - {""})


def waits(ran: Collection[ast.AST]) -> frozenset[str]:
    """What is counted up, and set back by something else: how long there was no progress."""
    back = {
        ast.unparse(target)
        for condition in ran
        if isinstance(condition, ast.If)
        for statement in (*condition.body, *condition.orelse)
        for target, value in given_values(statement)
        if isinstance(value, ast.Constant) and not _is_asked(target, condition.test)
    }
    return frozenset(back & {ast.unparse(target) for target in counted(ran)})


def _is_asked(target: ast.expr, test: ast.expr) -> bool:
    code = ast.unparse(target)
    return any(isinstance(at, ast.expr) and ast.unparse(at) == code for at in ast.walk(test))


def beginnings(
    script: Script, names: Collection[str], waiting: Collection[str] = ()
) -> Iterator[ast.Compare]:
    """Where a counter of `names`, none `waiting`, begins something at what may be large."""
    for node in script.nodes:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                count, limit = left, right
                known = isinstance(operator, _OPERATORS)
            case ast.Compare(left=limit, ops=[ast.Lt() | ast.LtE(), _], comparators=[count, _]):
                known = True
            case _:
                continue
        own = is_count(count, names) and ast.unparse(_counter(count)) not in waiting
        if known and own and _is_large(limit) and _begins(script, node):
            yield node


def thresholds(
    script: Script, names: Collection[str], given: Collection[str], waiting: Collection[str] = ()
) -> Iterator[ast.Compare]:
    """Where what the training is `given` as it goes begins something at a bound that stays."""
    for node in script.nodes:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                if ast.unparse(_counter(left)) in waiting:
                    known = isinstance(operator, _OPERATORS) and _is_large(right)
                else:
                    known = isinstance(operator, _PASSES) and _is_moved(left, right, names, given)
                begins = known and _begins(script, node, ast.Continue)
                if begins and not _computes_with(script, node, ast.unparse(_number(left))):
                    yield node


def _is_moved(
    left: ast.expr, right: ast.expr, names: Collection[str], given: Collection[str]
) -> bool:
    """Whether `left` is what the training is `given`, no count, and `right` stays as it is."""
    value = _number(left)
    moves = ast.unparse(value) in given and not is_count(value, names)
    return moves and _stays(right, given)


def passed_sooner(script: Script, threshold: ast.Compare, at: int) -> Change:
    """`threshold` comes out otherwise than it does once it was asked so often."""
    place = f"{script.path}:{threshold.lineno}:{threshold.col_offset}"
    text = f"(({script.code(threshold)}) != {hurried('late')}({place!r}, {at}))"
    return replacing(script, threshold, text)


def _computes_with(script: Script, compared: ast.Compare, code: str) -> bool:
    """Whether what is done then goes by the number itself, as clipping does: `most / norm`."""
    above = next((at for at in script.ancestors(compared) if isinstance(at, ast.If)), None)
    done = [*above.body, *above.orelse] if above else []
    sums = (at for each in done for at in ast.walk(each) if isinstance(at, ast.BinOp))
    return any(ast.unparse(part) == code for at in sums for part in (at.left, at.right))


def hurried(name: str) -> str:
    """Code that is the function of that `name` in `hurried.py`, wherever it stands."""
    return f"__import__({_HURRIED!r}, fromlist=[{name!r}]).{name}"


def _number(value: ast.expr) -> ast.expr:
    """What `value` is the number of: `loss` of `float(loss.item())`."""
    match value:
        case ast.Call(func=ast.Attribute(attr="item", value=inner), args=[]):
            return _number(inner)
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _number(inner)
    return value


def _stays(right: ast.expr, given: Collection[str]) -> bool:
    """Whether nothing in the training sets it, or it is a fraction: `if count > 0` is no bound."""
    if isinstance(right, ast.Constant):
        return isinstance(right.value, float) and not right.value.is_integer()
    variable = isinstance(right, ast.Name | ast.Attribute)
    return variable and ast.unparse(right) not in given


def begun_sooner(script: Script, stage: ast.Compare, at: int) -> Change:
    """`stage` begins at so many steps as well, or at its own number of them where that is less."""
    if len(stage.ops) > 1:  # `FROM <= step <= TO`
        return replacing(script, stage.left, f"min({script.code(stage.left)}, {at})")
    left, right = script.code(stage.left), script.code(stage.comparators[0])
    is_event = isinstance(stage.ops[0], ast.Eq)
    text = f"({at} if {left} == {at} else {right})" if is_event else f"min({right}, {at})"
    return replacing(script, stage.comparators[0], text)


def is_count(left: ast.expr, names: Collection[str]) -> bool:
    """Whether `left` is one of the counters `names`, or that and a number."""
    return last_name(_counter(left)) in names


def _counter(left: ast.expr) -> ast.expr:
    """`step` of `step + 1`."""
    match left:
        case ast.BinOp(left=counter, op=ast.Add() | ast.Sub(), right=ast.Constant()):
            return counter
    return left


def _is_large(right: ast.expr) -> bool:
    if isinstance(right, ast.Constant):
        return isinstance(right.value, int) and right.value > 2
    return not any(isinstance(at, ast.Mod) for at in ast.walk(right))


def _begins(script: Script, stage: ast.Compare, *ending: type[ast.stmt]) -> bool:
    """Whether something is done, or kept, by what `stage` comes to, and nothing is ended."""
    for above in script.ancestors(stage):
        match above:
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                continue
            case ast.If(body=body, orelse=other):
                ends = (at for each in (*body, *other) for at in ast.walk(each))
                return not any(isinstance(at, (*_ENDING, *ending)) for at in ends)
            case ast.Assign(targets=[target]):
                return not _ENDS.search(ast.unparse(target))
        return isinstance(above, ast.IfExp)
    return False


def ending_tests(script: Script, loop: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Each condition that `loop` ends by, and whether it ends where that holds: not a `while`."""
    if isinstance(loop, ast.While):
        yield loop.test, False
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and any(
            _leaves_it(script, at, loop) for at in _whenever(node.body)
        ):
            yield node.test, True


def ends_by_count(program: Program) -> bool:
    """Whether the loop over batches, and that over epochs, goes over a range or ends by a count."""
    inner, outer = own_loops(program)
    steps = {node for loop in inner for node in ast.walk(loop)} | running(program, inner)
    names = [name for name in counters(inner, steps) if "epoch" not in name]
    return any(
        isinstance(loop, ast.For) and "range" in names_in(loop.iter) for loop in inner
    ) or any(
        isinstance(at, ast.Compare) and is_count(at.left, names)
        for script in program.scripts.values()
        for loop in (at for at in script.nodes if at in (outer or inner))
        for test, _ in ending_tests(script, loop)
        for at in ast.walk(test)
    )


def _whenever(block: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """What runs in `block` without another condition."""
    for node in block:
        yield node
        if not isinstance(node, ast.If):
            yield from _whenever(list(ast.iter_child_nodes(node)))


def _leaves_it(script: Script, node: ast.AST, loop: ast.AST) -> bool:
    """Whether `node` ends `loop`."""
    if isinstance(node, ast.Break):
        around = (at for at in script.ancestors(node) if isinstance(at, ast.For | ast.While))
        return next(around, None) is loop
    match node:
        case ast.Call(func=function):
            return script.qualified(function) in _EXITS
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name in _RAISED
    # What a framework calls only gives back control: its loops go on.
    return isinstance(node, ast.Return) and isinstance(loop, ast.For | ast.While)
