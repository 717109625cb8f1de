"""Where a training gives weights other memory, in which their numbers may lie in another order."""

import ast

from autotune.source.loops.around_training import loops_of_training, running_within
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import last_name

# What gives numbers in the order in memory that it is given them in.
_IN_ORDER = frozenset(
    ("abs", "add", "clamp", "clone", "copy", "deepcopy", "detach", "div", "float", "lerp", "mul")
)
_IN_ORDER |= {"neg", "pow", "relu", "round", "sign", "sqrt", "sub", "tanh", "to", "where", "cpu"}

_FROM_ONE_ROW = "vector_to_parameters"  # weights that lie channels last do not any more


def relaid(program: Program) -> str:
    """File and line of `weight.data = ...` in the training of `program`, where what is given may
    lie otherwise (an orthogonal factor, a transposed matrix); "" where there is none.
    """
    inner, outer = loops_of_training(program)
    ran = running_within(program, [*inner, *outer])
    for script in program.scripts.values():
        for node in script.nodes:
            match node:
                case ast.Assign(targets=[ast.Attribute(attr="data")], value=value) if node in ran:
                    if not _keeps_order(value):
                        return script.at(node)
                case ast.Call(func=called) if node in ran and last_name(called) == _FROM_ONE_ROW:
                    return script.at(node)
    return ""


def _keeps_order(value: ast.expr) -> bool:
    """Whether all that `value` calls keeps the order, and what it names is not transposed."""
    names = {last_name(at) for at in ast.walk(value) if isinstance(at, ast.Attribute)}
    called = {last_name(call.func) for call in calls_in(value)}
    is_variable = isinstance(value, ast.Name)
    products = any(isinstance(at, ast.MatMult) for at in ast.walk(value))
    return (
        called <= _IN_ORDER
        and names.isdisjoint({"T", "mT", "H", "mH"})
        and not (is_variable or products)
    )
