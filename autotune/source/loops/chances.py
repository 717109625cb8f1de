"""A chance that a training moves as it goes: how often it explores, or is told the truth."""

import ast
from collections.abc import Collection, Iterator

from autotune.source.loops.around_training import loops_of_training, running_within
from autotune.source.loops.beginnings import counters
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Script, last_name, names_in

_DRAWS = frozenset(("random", "rand", "random_sample", "uniform"))
_OF_A_NUMBER = frozenset(("float", "item"))
# What chooses of scores that are there, or puts a number into another form.
_OF_SCORES = frozenset(
    (
        *("argmax", "max", "topk", "squeeze", "unsqueeze", "view", "reshape", "detach", "cpu"),
        *("numpy", "to", "long", "int", "tensor", "as_tensor", "size"),
    )
)
# Called to draw, to choose, or to say so: not what a step does by chance.
_TRIFLING = (
    _DRAWS
    | _OF_A_NUMBER
    | _OF_SCORES
    | {"print", "append", "randint", "randrange", "choice", "sample"}
)


def moved_chance(program: Program) -> str:
    """Where a random number is held against a chance that the training moves (`if random.random()
    < epsilon`), and a step calls something by that: its first steps are then not its later ones.
    """
    inner, outer = loops_of_training(program)
    ran = running_within(program, [*inner, *outer])
    names = counters([*inner, *outer], ran)
    moved = {ast.unparse(target) for target in _moved(ran, names)}
    for script in program.scripts.values():
        for test in (at for at in script.nodes if isinstance(at, ast.Compare) and at in ran):
            sides = (test.left, test.comparators[0])
            drawn = [side for side in sides if _is_drawn(script, side)]
            chance = [side for side in sides if side not in drawn]
            if not drawn or not chance or not _is_moved(chance[0], moved, names):
                continue
            if _decides(script, test):
                return script.at(test)
    return ""


def _moved(ran: Collection[ast.AST], names: Collection[str]) -> Iterator[ast.expr]:
    """What is given there what it was before, made less or more, or what goes with a counter."""
    for node in ran:
        match node:
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=op):
                if not isinstance(op, ast.Add) or not isinstance(node.value, ast.Constant):
                    yield target
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                if _goes_with(value, {ast.unparse(target)}, names) and not _draws(value):
                    yield target


def _goes_with(value: ast.expr, moved: Collection[str], names: Collection[str]) -> bool:
    """Whether `value` is computed from one of the variables `moved`, or from a counter."""
    called = {call.func for call in calls_in(value)}
    read = (at for at in ast.walk(value) if isinstance(at, ast.Name | ast.Attribute))
    return not isinstance(value, ast.Name | ast.Attribute | ast.Constant) and any(
        ast.unparse(at) in moved or last_name(at) in names for at in read if at not in called
    )


def _is_moved(side: ast.expr, moved: Collection[str], names: Collection[str]) -> bool:
    if isinstance(side, ast.Name | ast.Attribute):
        return ast.unparse(side) in moved
    return _goes_with(side, moved, names)


def _is_drawn(script: Script, side: ast.expr) -> bool:
    """Whether `side` is one random number, or the name of one."""
    if isinstance(side, ast.Name):
        values = script.binds(side.id, beside=side)
        return len(values) == 1 and not isinstance(values[0], ast.Name) and _draws(values[0])
    return _draws(side)


def _draws(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=function) if last_name(function) in _DRAWS:
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            return _draws(inner)
        case ast.Call(func=ast.Name(id="float"), args=[inner]) | ast.Subscript(value=inner):
            return _draws(inner)
    return False


def _decides(script: Script, test: ast.Compare) -> bool:
    """Whether something is called by what `test` comes to, and else not."""
    for above in script.ancestors(test):
        match above:
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                continue
            case ast.If() | ast.IfExp():
                return _differs(script, above)
            case ast.Assign(targets=[ast.Name(id=name)]):
                return any(
                    isinstance(at, ast.If | ast.IfExp)
                    and name in names_in(at.test)
                    and _differs(script, at)
                    for at in ast.walk(script.function(test) or script.tree)
                )
        return False
    return False


def _differs(script: Script, choice: ast.If | ast.IfExp) -> bool:
    """Whether one branch of `choice` calls something that the other does not."""
    if isinstance(choice, ast.IfExp):
        return _calls([choice.body]) != _calls([choice.orelse])
    return _calls(choice.body) != _calls([*choice.orelse, *_after(script, choice)])


def _after(script: Script, branch: ast.If) -> list[ast.stmt]:
    """What comes after `branch` where it is left by its end (`return`), in the same block."""
    if not isinstance(branch.body[-1], ast.Return | ast.Continue):
        return []
    block = script.block(branch)
    return block[block.index(branch) + 1 :]


def _calls(block: list[ast.stmt] | list[ast.expr]) -> frozenset[str]:
    """What the program calls there, but for trifles."""
    called = (last_name(call.func) for at in block for call in calls_in(at))
    return frozenset(called) - _TRIFLING
