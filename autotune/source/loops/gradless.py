"""Where a training goes over data without gradients between its steps: a validation."""

import ast

from autotune.source.calls.called import called_models
from autotune.source.loops.around_training import running_within
from autotune.source.loops.evaluation import is_without_gradients
from autotune.source.loops.loss import WITHOUT_GRADIENTS
from autotune.source.loops.one_training import loops_of_one_training
from autotune.source.named import calls_named
from autotune.source.program import Program
from autotune.source.reach import argument_code
from autotune.source.script import Function, Script, last_name

_LOOPS = (
    ast.For
    | ast.AsyncFor
    | ast.While
    | ast.GeneratorExp
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
)


def gone_over(program: Program) -> str:
    """Where the loops over epochs call a model of the steps in a loop without gradients."""
    inner, outer = loops_of_one_training(program)
    ran = running_within(program, [*inner, *outer]) - running_within(program, inner)
    calls = (
        script.at(call)
        for script, call in program.calls()
        if call in ran and _is_in_a_loop(script, call, outer) and _has_none(script, call)
        if _calls_a_model(program, script, call)
    )
    return next(calls, "")


def _is_in_a_loop(script: Script, call: ast.Call, outer: list[ast.AST]) -> bool:
    """Whether `call` lies in a loop of its function's beside those over epochs, `outer`."""
    for at in script.ancestors(call):
        if isinstance(at, Function) or at in outer:
            return False
        if isinstance(at, _LOOPS):
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
