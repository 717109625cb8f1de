"""Where a training evaluates its model between its steps, as its source shows."""

import ast

from autotune.source.calls.called import called_models
from autotune.source.loops.around_training import loops_of_one_training, running_within
from autotune.source.loops.loss import BACKWARDS, WITHOUT_GRADIENTS
from autotune.source.named import calls_named
from autotune.source.program import Program, first_of, holds
from autotune.source.reach import argument_code, calls_in, decorators
from autotune.source.script import (
    COMPREHENSIONS,
    LOOPS,
    Function,
    Script,
    covers,
    given_to,
    is_method,
    last_name,
)

_LEAVING = ast.Continue | ast.Return


def evaluated(program: Program) -> str:
    """What puts a model into evaluation in the loops of the training, to train on or without
    gradients; no layer that is kept in evaluation, no teacher, no step's own forward pass. Of
    several it is one of a file that was seen to train, and first one in its loop over epochs.
    """
    inner, outer = loops_of_one_training(program)
    ran = running_within(program, [*inner, *outer])
    each_step = {node for loop in inner for node in ast.walk(loop)}
    between = {node for loop in outer for node in ast.walk(loop)} - each_step
    trains = {place.path for place in program.places.backwards}
    found = [
        (script.path not in trains, call not in between, script.at(call))
        for script, call in program.calls()
        if call in ran and is_method(call, "eval") and not call.args
        if not _is_of_a_step(program, script, call) and not _is_idle(script, call)
        if _trains_again(script, call) or is_without_gradients(script, call)
    ]
    return min(found, key=lambda each: each[:2])[2] if found else ""


def _is_of_a_step(program: Program, script: Script, evaluation: ast.Call) -> bool:
    """Whether it is a step's own: a forward pass, what warms up in one, or trains in evaluation."""
    function = script.function(evaluation)
    if function is None:
        return False
    of_itself = function.name == "forward" and _receiver(evaluation) == "self"
    if of_itself or _trains_after(script, function, evaluation) or _sets_a_mode(script, evaluation):
        return True
    trained = holds(script, function, program.places.backwards)
    return holds(script, function, [program.places.forward]) and not trained


def _is_idle(script: Script, evaluation: ast.Call) -> bool:
    """Whether the model is in evaluation at the end of a turn only, where nothing uses it."""
    of, statement = _receiver(evaluation), script.statement(evaluation)
    loop = next(iter(script.ancestors(statement)), None)
    if not isinstance(loop, LOOPS) or statement not in loop.body:
        return False
    after = loop.body[loop.body.index(statement) + 1 :]
    for each in (*after, *loop.body):
        calls = calls_in(each)
        if any(is_method(call, "train") and _receiver(call) == of for call in calls):
            return True
        if each is statement or _is_used(each, of):
            return False
    return False


def _is_used(statement: ast.stmt, of: str) -> bool:
    """Whether `statement` calls what `of` is the code of, or hands it on."""
    return any(
        ast.unparse(at) == of
        for call in calls_in(statement)
        for part in (call.func, *given_to(call))
        for at in ast.walk(part)
        if isinstance(at, ast.Name | ast.Attribute)
    )


def _trains_after(script: Script, function: Function, evaluation: ast.Call) -> bool:
    """Whether `function` goes on from `evaluation` to its one backward pass, in no loop."""
    backward = [call for call in calls_in(function) if last_name(call.func) in BACKWARDS]
    between = [at for call in backward for at in script.ancestors(call) if at is not function]
    alone = any(isinstance(at, ast.Expr) and at.value is evaluation for at in function.body)
    if not (alone and backward and evaluation.lineno < backward[0].lineno):
        return False
    looped = any(isinstance(at, LOOPS) and covers(function, at.lineno) for at in between)
    lines = range(evaluation.lineno, backward[0].lineno)
    of = _receiver(evaluation)
    back = (at for at in calls_in(function) if is_method(at, "train") and at.lineno in lines)
    return not looped and all(_receiver(call) != of for call in back)


def _sets_a_mode(script: Script, evaluation: ast.Call) -> bool:
    """Whether one branch does only this, the other trains, and a backward pass follows either."""
    above = script.ancestors(evaluation)
    choice = next((at for at in above if not isinstance(at, ast.Expr)), None)
    if not isinstance(choice, ast.If | ast.IfExp):
        return False
    parts = [at for at in ast.iter_child_nodes(choice) if at is not choice.test]
    called = {ast.unparse(call.func) for at in parts for call in calls_in(at)}
    if called != {f"{_receiver(evaluation)}.{mode}" for mode in ("eval", "train")}:
        return False
    around, statement = script.statements_to(choice), script.statement(choice)
    block = script.block(statement)
    after = [at for each in block[block.index(statement) + 1 :] for at in ast.walk(each)]
    passes = (at for at in after if isinstance(at, ast.Call) and last_name(at.func) in BACKWARDS)
    if any(isinstance(at, ast.If) and isinstance(at.body[-1], _LEAVING) for at in after):
        return False
    return any(
        not any(isinstance(at, ast.If) and at not in around for at in script.statements_to(call))
        for call in passes
    )


def _trains_again(script: Script, evaluation: ast.Call) -> bool:
    """Whether what is evaluated is put back into training in the same file."""
    of = _receiver(evaluation)
    return any(is_method(call, "train") and _receiver(call) == of for call in script.calls)


def _receiver(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    return ast.unparse(call.func.value)


def is_without_gradients(script: Script, call: ast.Call) -> bool:
    """Whether the function that holds `call` computes without gradients and trains nothing."""
    function = script.function(call)
    if function is None:
        return False
    names = {last_name(call.func) for call in calls_in(function)}
    return bool(WITHOUT_GRADIENTS & (names | decorators(function))) and names.isdisjoint(BACKWARDS)


def gone_over(program: Program) -> str:
    """Where the loops over epochs call a model of the steps in a loop without gradients."""
    inner, outer = loops_of_one_training(program)
    ran = running_within(program, [*inner, *outer]) - running_within(program, inner)
    return first_of(
        (script, call)
        for script, call in program.calls()
        if call in ran and _is_in_a_loop(script, call, outer) and _has_none(script, call)
        if _calls_a_model(program, script, call)
    )


def _is_in_a_loop(script: Script, call: ast.Call, outer: list[ast.AST]) -> bool:
    """Whether `call` lies in a loop of its function's beside those over epochs, `outer`."""
    for at in script.ancestors(call):
        if isinstance(at, Function) or at in outer:
            return False
        if isinstance(at, LOOPS | COMPREHENSIONS):
            return True
    return False


def _has_none(script: Script, call: ast.Call) -> bool:
    """Whether `call` computes without gradients, by its function or a `with` around it."""
    around = (
        item for at in script.ancestors(call) if isinstance(at, ast.With) for item in at.items
    )
    entered = (at.context_expr.func for at in around if isinstance(at.context_expr, ast.Call))
    return any(last_name(at) in WITHOUT_GRADIENTS for at in entered) or is_without_gradients(
        script, call
    )


def _calls_a_model(program: Program, script: Script, call: ast.Call) -> bool:
    """Whether `call` is of a model that steps call, or of what its function is given such for."""
    if ast.unparse(call.func) in called_models(program, script):
        return True
    function = script.function(call)
    if function is None or not isinstance(call.func, ast.Name):
        return False
    return any(
        argument_code(each, script, function, call.func.id) in called_models(program, other)
        for other, each in calls_named(program, function.name)
    )
