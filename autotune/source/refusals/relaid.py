"""Where a training gives weights other memory, in which their numbers may lie in another order."""

import ast
from collections.abc import Iterator

from autotune.source.loops.around_training import loops_of_training, running_within
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Script, last_name

# What gives numbers in the order in memory that it is given them in, or what has no order to give
# on: one number, or one for each row.
_IN_ORDER = frozenset(
    ("abs", "add", "clamp", "clone", "copy", "deepcopy", "detach", "div", "float", "lerp", "mul")
)
_IN_ORDER |= {"neg", "pow", "relu", "round", "sign", "sqrt", "sub", "tanh", "to", "where", "cpu"}
_IN_ORDER |= {"exp", "log", "rsqrt", "sigmoid", "maximum", "minimum", "zeros_like", "ones_like"}
_IN_ORDER |= {"norm", "vector_norm", "sum", "mean", "std", "var", "max", "min", "amax", "amin"}
_IN_ORDER |= {"item", "len", "size", "numel", "getattr", "get_parameter", "get_last_lr"}

_FROM_ONE_ROW = "vector_to_parameters"


def relaid(program: Program) -> str:
    """File and line of `weight.data = ...` or `weight.set_(...)` in the training of `program`,
    where what is given may lie otherwise (an orthogonal factor, a transposed matrix); "" where
    there is none.
    """
    ran = _training(program)
    for script in program.scripts.values():
        for node in script.nodes:
            if node not in ran:
                continue
            match node:
                case ast.Assign(targets=[ast.Attribute(attr="data")], value=value):
                    kept = _keeps_order(script, value)
                case ast.Call(func=ast.Attribute(attr="set_"), args=args, keywords=more):
                    kept = len(args) == 1 and not more and _keeps_order(script, args[0])
                case _:
                    continue
            if not kept:
                return script.at(node)
    return ""


def from_one_row(program: Program) -> str:
    """File and line where the training of `program` gives its weights what `vector_to_parameters`
    cuts from one row of numbers, in the usual order: channels last they do not lie any more. ""
    where it does not.
    """
    ran = _training(program)
    return next(
        (
            script.at(node)
            for script in program.scripts.values()
            for node in script.nodes
            if node in ran and isinstance(node, ast.Call) and last_name(node.func) == _FROM_ONE_ROW
        ),
        "",
    )


def _training(program: Program) -> set[ast.AST]:
    inner, outer = loops_of_training(program)
    return running_within(program, [*inner, *outer])


def _keeps_order(script: Script, value: ast.expr, known: frozenset[str] = frozenset()) -> bool:
    """Whether all that `value` calls keeps the order, and what it names is not transposed; so too
    of the variables of its function that it names, but for those that are `known`. Of a variable
    alone that is given nothing there, nobody knows.
    """
    names = {last_name(at) for at in ast.walk(value) if isinstance(at, ast.Attribute)}
    called = {last_name(call.func) for call in calls_in(value)}
    products = any(isinstance(at, ast.MatMult) for at in ast.walk(value))
    if not called <= _IN_ORDER or names & {"T", "mT", "H", "mH"} or products:
        return False
    read = {at.id for at in ast.walk(value) if isinstance(at, ast.Name)} - known
    given = [each for name in read for each in _given(script, value, name)]
    if isinstance(value, ast.Name) and not given:
        return value.id in known
    return all(_keeps_order(script, each, known | read) for each in given)


def _given(script: Script, at: ast.expr, name: str) -> Iterator[ast.expr]:
    """What the variable `name` is given in the function that `at` lies in."""
    function = script.function(at)
    for node in script.nodes if function else ():
        if isinstance(node, ast.Assign) and script.function(node) is function:
            bound = (each for target in node.targets for each in ast.walk(target))
            if any(isinstance(each, ast.Name) and _is_bound(each, name) for each in bound):
                yield node.value


def _is_bound(target: ast.Name, name: str) -> bool:
    return target.id == name and isinstance(target.ctx, ast.Store)
