"""Ways out of a training loop, and those that wait until the step of a group is made."""

import ast
from itertools import pairwise, takewhile

from autotune.source.insertions import after, before, under
from autotune.source.loops.loop import TrainingLoop, own_nodes
from autotune.source.program import Change

_EXITS = ast.Break | ast.Continue | ast.Return | ast.Yield | ast.YieldFrom
_LOOPS = ast.For | ast.While


def may_leave(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` can leave the loop or a batch in the midst of a group of micro-batches.

    By a condition that the loop does not change (`if args.dry_run: break`) it did not in the run,
    which took its steps; where it does, it can wait for the step of the group.
    """
    if not isinstance(node, _EXITS) or _is_of_inner_loop(loop, node):
        return False
    outer = next(at for at in loop.script.ancestors(node) if isinstance(at, ast.stmt))
    if not isinstance(outer, ast.If) or not loop.is_constant(outer.test):
        return True
    return not (_is_settled(loop, node) or _waits_there(loop, node) or _waits_below(loop, node))


def put_off(loop: TrainingLoop, ready: str) -> list[Change]:
    """What makes each way out that comes before the step of a group wait until that is `ready`."""
    script, body = loop.script, loop.node.body
    nodes = [at for at in own_nodes(loop.node) if isinstance(at, _EXITS)]
    nodes = [at for at in nodes if not _is_settled(loop, at)]
    there = {_way(loop, at)[-1] for at in nodes if _waits_there(loop, at)}
    changes = [change for at in there for change in under(script, at, at, f"if {ready}:")]
    below = [at for at in nodes if isinstance(at, ast.Break) and not _waits_there(loop, at)]
    if not below:
        return changes
    name = script.free_name("leaving", "leaving_loop")
    for at in below:
        start, end = script.start(at), script.end(at)
        changes.append(Change(path=script.path, start=start, end=end, text=f"{name} = True"))
    changes.append(before(script, loop.node, [f"{name} = False"]))
    ready = f"({ready})" if " or " in ready else ready
    return [*changes, after(script, body[-1], [f"if {name} and {ready}:", "    break"])]


def _is_settled(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` leaves an inner loop alone, or does so for every batch, before a step."""
    way = _way(loop, node)
    goes_on = not isinstance(node, ast.Break | ast.Return)
    return _is_of_inner_loop(loop, node) or (
        _is_fixed(loop, way) and (goes_on or not _is_behind_step(loop, way))
    )


def _is_of_inner_loop(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` is a `break` or `continue` of a loop inside, and not in the `else` of one."""
    return isinstance(node, ast.Break | ast.Continue) and any(
        isinstance(around, _LOOPS) and at in around.body
        for at, around in pairwise(_way(loop, node))
    )


def _waits_there(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` may only come behind the step of a group as it may behind each step."""
    way = _way(loop, node)
    return _is_fixed(loop, way) and _is_behind_step(loop, way)


def _waits_below(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` is a `break` at the end of the body that comes by the first batch, if ever."""
    way = _way(loop, node)
    last = all(loop.script.block(at)[-1] is at for at in way)
    return isinstance(node, ast.Break) and last and _is_fixed(loop, way, of_first=True)


def _way(loop: TrainingLoop, node: ast.AST) -> list[ast.stmt]:
    """The statements from that of `node` up to the one in the loop's own body."""
    return list(takewhile(lambda at: at is not loop.node, loop.script.statements_to(node)))


def _is_behind_step(loop: TrainingLoop, way: list[ast.stmt]) -> bool:
    body = loop.node.body
    return body.index(way[-1]) > body.index(loop.step.statement)


def _is_fixed(loop: TrainingLoop, way: list[ast.stmt], *, of_first: bool = False) -> bool:
    """Whether each batch goes this `way` if one does, or, `of_first`, the first one does."""
    return all(
        isinstance(around, ast.If)
        and (
            loop.is_constant(around.test)
            or (of_first and at in around.body and _holds_at_first(loop, around.test))
        )
        for at, around in pairwise(way)
    )


def _holds_at_first(loop: TrainingLoop, test: ast.expr) -> bool:
    """Whether `test` holds for the first batch, as `i % 100 == 0` does."""
    match test:
        case ast.Compare(
            left=ast.BinOp(left=ast.Name(id=name), op=ast.Mod()),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            return name == loop.index
    return False
