"""Where a training gives weights other memory, in which their numbers may lie in another order."""

import ast
from collections.abc import Iterator

from autotune.source.loops.around_training import running_in_training
from autotune.source.program import Program, first_of
from autotune.source.reach import calls_in
from autotune.source.script import Script, last_name, names_in, parameters

# What gives numbers in the order in memory that it is given them in, or what has no order to give
# on: one number, or one for each row.
_IN_ORDER = frozenset(
    ("abs", "add", "clamp", "clone", "copy", "deepcopy", "detach", "div", "float", "lerp", "mul")
)
_IN_ORDER |= {"neg", "pow", "relu", "round", "sign", "sqrt", "sub", "tanh", "to", "where", "cpu"}
_IN_ORDER |= {"exp", "log", "rsqrt", "sigmoid", "maximum", "minimum", "zeros_like", "ones_like"}
_IN_ORDER |= {"item", "len", "size", "numel", "getattr", "get_parameter", "get_last_lr"}
# What gives fewer numbers than it is given: in order where they scale others.
_FEWER = {"norm", "vector_norm", "sum", "mean", "std", "var", "max", "min", "amax", "amin"}

_FROM_ONE_ROW = "vector_to_parameters"  # weights that lie channels last do not any more


def relaid(program: Program) -> str:
    """Where the training sets `weight.data` (or `set_`) to what may lie in another order."""
    ran = running_in_training(program)
    return first_of(each for each in program.nodes() if each[1] in ran and _relays(*each))


def _relays(script: Script, node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="data")], value=value):
            return not _keeps_order(script, value)
        case ast.Call(func=ast.Attribute(attr="set_"), args=args, keywords=more):
            return len(args) != 1 or bool(more) or not _keeps_order(script, args[0])
        case ast.Call(func=called):
            return last_name(called) == _FROM_ONE_ROW
    return False


def _keeps_order(
    script: Script, value: ast.expr, known: frozenset[str] = frozenset(), *, whole: bool = True
) -> bool:
    """Whether all that `value` calls keeps the order, and what it names is not transposed; so too
    of the variables that it names, but for those that are `known`. Of a variable that is the
    `whole` of what is given, and begins as an argument or as what a loop goes through, nobody
    knows.
    """
    names = {last_name(at) for at in ast.walk(value) if isinstance(at, ast.Attribute)}
    called = {last_name(call.func) for call in calls_in(value)}
    products = any(isinstance(at, ast.MatMult) for at in ast.walk(value))
    if not called <= _IN_ORDER | _FEWER or names & {"T", "mT", "H", "mH"} or products:
        return False
    if whole and isinstance(value, ast.Call) and last_name(value.func) in _FEWER:
        return False
    read = names_in(value) - known
    given = [each for name in read for each in _given(script, value, name)]
    whole = whole and isinstance(value, ast.Name)
    if whole and read and (not given or None in given):
        return False
    told = [each for each in given if each is not None]
    return all(_keeps_order(script, each, known | read, whole=whole) for each in told)


def _given(script: Script, at: ast.expr, name: str) -> Iterator[ast.expr | None]:
    """What the variable `name` is given where `at` lies; None for what no assignment gives it."""
    function = script.function(at)
    if function and name in parameters(function):
        yield None
    for node in script.nodes:
        stored = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        if stored and script.function(node) is function:
            statement = script.statement(node)
            yield statement.value if isinstance(statement, ast.Assign) else None
