"""Whether a training loop has the usual form: one backward and one step for each batch."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from autotune.source.loops.counters import deciding_counter, goes_by_index, saying_functions
from autotune.source.loops.forward import backwards_in_loop, is_zero_grad
from autotune.source.loops.indirect import Called, called_in, stored_by, unusual_calls
from autotune.source.loops.iteration import enumerate_of, loader_of
from autotune.source.loops.loop import TrainingLoop, may_leave, own_nodes, receiver_code
from autotune.source.loops.loss import CLIPS, loss_names
from autotune.source.loops.weights import (
    averages,
    moves_weights,
    only_reads_groups,
    touches_groups,
)
from autotune.source.places import backward_and_step, refusal
from autotune.source.program import Program
from autotune.source.script import Function, Script, given_to, is_method, last_name

_LOOPS = ast.For | ast.While | ast.AsyncFor | Function
_OF_MODULES = ("parameters", "named_parameters", "modules", "named_modules", "train", "eval")


def training_loop(program: Program, hand_step: str) -> TrainingLoop:
    """The loop round backward and step.

    Raises:
        Refusal: it is not in the usual form; the reason says in what.
    """
    backward, step = backward_and_step(program, hand_step)
    script = backward.script
    node = next((at for at in script.ancestors(backward.node) if isinstance(at, _LOOPS)), None)
    if not isinstance(node, ast.For):
        raise backward.refusal("backward is not written in a for loop over a loader", hand_step)
    if backward.statement not in node.body or step.statement not in node.body:
        at = step.script.at(step.node)
        reason = f"backward and the optimizer's step ({at}) are not both statements of the loop's "
        raise backward.refusal(f"{reason}own body", hand_step)
    loader = loader_of(script, node, node.iter, hand_step)
    index = _index(script, node, node.iter, hand_step)
    loop = TrainingLoop(
        script=script, node=node, backward=backward, step=step, loader=loader, index=index
    )
    functions = called_in(program, script, node, loop.others, "forward")
    loop = replace(loop, stored=stored_by(functions))
    reasons = (
        *_unusual(program, loop, saying_functions(program)),
        *_done_in_functions(program, loop, functions),
    )
    if reason := "".join(reasons[:1]):
        raise refusal(script, node.lineno, reason, hand_step)
    return loop


def _index(script: Script, node: ast.For, source: ast.expr, hand_step: str) -> str:
    """What counts the batches of `node` from 0, "" where nothing does."""
    enumerated = enumerate_of(script, node, source)
    if enumerated is None:
        return ""
    starts = [*enumerated.args[1:], *(keyword.value for keyword in enumerated.keywords)]
    start = starts[0] if starts else ast.Constant(0)
    match node.target, start:
        case ast.Tuple(elts=[ast.Name(id=name), _]), ast.Constant(value=int(first)):
            stored = [
                at
                for at in ast.walk(node)
                if isinstance(at, ast.Name) and at.id == name and isinstance(at.ctx, ast.Store)
            ]
            if len(stored) == 1:
                return f"({name} - {first})" if first else name
    reason = "it cannot be told which batch of the epoch the loop is at"
    raise refusal(script, node.lineno, reason, hand_step)


def _index_name(node: ast.For) -> str:
    assert isinstance(node.target, ast.Tuple)
    return last_name(node.target.elts[0])


def _unusual(program: Program, loop: TrainingLoop, saying: frozenset[str]) -> list[str]:
    """What keeps the step of `loop` from being put off; functions that only say do not."""
    script, step = loop.script, loop.step
    nodes = list(own_nodes(loop.node))
    calls = [at for at in nodes if isinstance(at, ast.Call)]
    body = loop.node.body
    found = []
    if len(backwards_in_loop(loop.backward)) > 1:
        found.append("the loop has more than one backward pass")
    if body.index(step.statement) < body.index(loop.backward.statement):
        found.append("the optimizer steps before backward")
    if loop.node.orelse or any(may_leave(loop, at) for at in nodes):
        found.append("the loop can be left early or skip a batch")
    if loop.backward.node.args or loop.backward.node.keywords:
        found.append("backward is given arguments")
    if not all(script.owns_its_lines(at) for at in body):
        found.append("statements of the loop share their lines")
    found += _unusual_steps(loop, calls)
    found += _uses_between(program, loop, nodes)
    late, loss = loop.backward.node.lineno, loss_names(loop.backward)
    if loop.index and goes_by_index(_index_name(loop.node), nodes, loss, late, saying):
        found.append("what the loop does depends on which batch of the epoch it is at")
    return found


def _done_in_functions(
    program: Program, loop: TrainingLoop, functions: list[Called]
) -> Iterator[str]:
    """What the loop does by `functions` that it calls, or they by what it counts."""
    script, nodes = loop.script, own_nodes(loop.node)
    if counter := deciding_counter(program, script, nodes, functions):
        yield f"the loop keeps a count in {counter}, and the program may go by it"
    late = loop.node.body.index(loop.backward.statement)
    behind = [at for at in loop.others if loop.node.body.index(at) > late]
    later = called_in(program, script, loop.node, behind)
    yield from unusual_calls([at for at in functions if at not in later], after=False)
    yield from unusual_calls(later, after=True)


def _unusual_steps(loop: TrainingLoop, calls: list[ast.Call]) -> Iterator[str]:
    guarded = [at for run in loop.runs for statement in run for at in ast.walk(statement)]
    ordered = [at for run in loop.runs for at in run]
    clears = [call for call in calls if is_method(call, "zero_grad")]
    steps = [call for call in calls if is_method(call, "step")]
    if not clears:
        yield "the loop calls no zero_grad() itself"
    known = (*guarded, *(at for clear in loop.clears for at in ast.walk(clear)))
    if any(call not in known for call in (*clears, *steps)):
        yield "gradients are cleared, or something steps, elsewhere in the loop"
    first = ordered.index(loop.step.statement) if loop.step.statement in ordered else 0
    if any(is_zero_grad(at) for at in ordered[:first]):
        yield "gradients are cleared between backward and step"
    for call in (at for at in calls if last_name(at.func) in CLIPS and at not in guarded):
        match loop.script.statement(call):
            case ast.Assign(targets=[ast.Name(id=name)]) if loop.reads(name):
                yield f"the norm of the gradients is used in the loop ({loop.script.at(call)})"
            case _:
                yield "gradients are clipped in another way than by a statement before the step"
    for call in (at for at in steps if at is not loop.step.node and (at.args or at.keywords)):
        told = ast.unparse(call.func)
        yield f"{told}() is given arguments, which may depend on the batch ({loop.script.at(call)})"


def _uses_between(program: Program, loop: TrainingLoop, nodes: list[ast.AST]) -> Iterator[str]:
    attributes = [at.attr for at in nodes if isinstance(at, ast.Attribute)]
    if "grad" in attributes or touches_groups(loop.script, nodes):
        yield "the loop touches gradients, or the optimizer's param_groups, itself"
    models = _modules(loop.script) | {
        at.func.id for at in nodes if isinstance(at, ast.Call) and isinstance(at.func, ast.Name)
    }
    stepped = loop.step.node.args[:1]
    optimizer = ast.dump(stepped[0]) if stepped else receiver_code(loop.step.node)
    late = loop.node.body.index(loop.backward.statement)
    for statement in loop.others:
        after = loop.node.body.index(statement) > late
        if moves_weights(statement, loop.node.body):
            at = loop.script.at(statement)
            yield f"the loop goes over weights and changes something in place ({at})"
        for call in (at for at in ast.walk(statement) if isinstance(at, ast.Call)):
            values = given_to(call)
            given = {ast.unparse(at) for at in values if isinstance(at, ast.Name | ast.Attribute)}
            if after and given & models:
                used = min(given & models)
                yield f"{used} is used again after backward ({loop.script.at(call)})"
            if averages(call, after=after):
                told = f"{ast.unparse(call.func)}() ({loop.script.at(call)})"
                yield f"by its name, {told} keeps an average of the weights, or moves some"
            handed = [at for at in values if ast.dump(at) == optimizer]
            if handed and not only_reads_groups(program, call, handed):
                yield "the optimizer is handed to other code in the loop"


def _modules(script: Script) -> set[str]:
    """What the file shows to be models: their parameters are taken, or their mode is set."""
    return {
        ast.unparse(call.func.value)
        for call in script.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_MODULES
    }
