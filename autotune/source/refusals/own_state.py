"""Where a program changes what an optimizer has and keeps, or gives its weights other memory."""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from autotune.source.calls.writes import assigned, keys_set, stored_in
from autotune.source.loops.around_training import running_in_training
from autotune.source.places import Call
from autotune.source.program import Program, first_of
from autotune.source.reach import calls_in
from autotune.source.refusals.loads import names_of
from autotune.source.script import Function, Script, last_name, names_in, parameters

_DROPPING = frozenset(("pop", "popitem", "clear"))
_OF_ONE = frozenset(("get", "setdefault"))
_OF_ALL = frozenset(("values", "items"))
_ADDING = frozenset(("append", "extend", "insert"))
_JOINING = "add_param_group"
_COMPLEX = re.compile(r"complex(?!it)|cfloat|cdouble|chalf|fft|^polar$|^hilbert$")
_LIKE = frozenset(("zeros_like", "ones_like", "full_like"))  # in the number format of what is given
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What the optimizers of these `names` keep, as one file writes it; `entries` are the variables
    of its functions that are what is kept of one weight.
    """

    script: Script
    names: Collection[str]
    entries: frozenset[tuple[Function | None, str]] = frozenset()

    def is_whole(self, part: ast.expr) -> bool:
        """Whether `part` is `optimizer.state`."""
        match part:
            case ast.Attribute(attr="state", value=optimizer):
                return last_name(optimizer) in self.names
        return False

    def is_entry(self, part: ast.expr) -> bool:
        """Whether `part` is what is kept of one weight: `optimizer.state[weight]`."""
        match part:
            case ast.Subscript(value=whole):
                return self.is_whole(whole)
            case ast.Call(func=ast.Attribute(attr=method, value=whole)):
                return method in _OF_ONE and self.is_whole(whole)
            case ast.Name(id=name):
                return (self.script.function(part), name) in self.entries
        return False


def counted_anew(program: Program, built: Sequence[Call]) -> str:
    """Where a weight is given another count of its steps, of an optimizer that is `built` so."""
    return _first(program, built, _counts_anew)


def forgotten(program: Program, built: Sequence[Call]) -> str:
    """Where what is kept of one weight (not of all) is dropped, or something else put there."""
    return _first(program, built, _forgets)


def extended(program: Program, built: Sequence[Call]) -> str:
    """Where it puts weights into a group that such an optimizer has already."""
    return _first(program, built, _extends, words=".param_groups")


def joined(program: Program, built: Sequence[Call]) -> str:
    """Where weights join, in a program that has complex ones, or sparse gradients."""
    if not any(_is_unfused(at) for _, at in program.nodes()):
        return ""
    return _first(program, built, _joins, words=_JOINING)


def _is_unfused(node: ast.AST) -> bool:
    """Whether `node` names complex numbers, or asks for gradients that are sparse."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return bool(_COMPLEX.search(name))
        case ast.keyword(arg="sparse", value=ast.Constant(value=value)):
            return bool(value)
    return False


def _first(
    program: Program,
    built: Sequence[Call],
    does: Callable[[_State, ast.AST], bool],
    words: str = ".state",
) -> str:
    names = names_of(program, built)
    for script in program.scripts.values():
        if words not in script.text:
            continue
        state = _State(script=script, names=names)
        named = {each for node in script.nodes if (each := _named(state, node))}
        state = _State(script=script, names=names, entries=frozenset(named))
        for node in script.nodes:
            if does(state, node):
                return script.at(node)
    return ""


def _named(state: _State, node: ast.AST) -> tuple[Function | None, str] | None:
    """The variable that `node` gives what is kept of one weight, with its function."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if state.is_entry(value):
            return state.script.function(node), name
        case ast.For(
            target=target, iter=ast.Call(func=ast.Attribute(attr=method, value=whole))
        ) if method in _OF_ALL and state.is_whole(whole):
            last = target.elts[-1] if isinstance(target, ast.Tuple) else target
            return state.script.function(node), last_name(last)
    return None


def _counts_anew(state: _State, node: ast.AST) -> bool:
    if "step" not in (keys_set(node) or ()):
        return False
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=entry)):
            return method != "pop" and state.is_entry(entry)
        case ast.Assign(
            value=ast.Call(
                func=made,
                args=[ast.Subscript(value=entry, slice=ast.Constant(value="step")), *_],
                keywords=named,
            )
        ) if last_name(made) in _LIKE and state.is_entry(entry):
            return any(each.arg == "dtype" for each in named)
    targets = assigned(node)
    return any(isinstance(at, ast.Subscript) and state.is_entry(at.value) for at in targets)


def _forgets(state: _State, node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=targets):
            return any(isinstance(at, ast.Subscript) and state.is_entry(at) for at in targets)
        case ast.Delete(targets=targets):
            wholes = [at.value for at in targets if isinstance(at, ast.Subscript)]
            return any(state.is_whole(at) or state.is_entry(at) for at in wholes)
        case ast.Call(func=ast.Attribute(attr=method, value=whole)) if method in _DROPPING:
            return state.is_entry(whole) or (method == "pop" and state.is_whole(whole))
    return False


def _joins(state: _State, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=optimizer)):
            return method == _JOINING and last_name(optimizer) in state.names
    return False


def _extends(state: _State, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=weights)) if method in _ADDING:
            return _is_of_group(state, weights)
    return any(_is_of_group(state, at) for at in assigned(node))


def _is_of_group(state: _State, part: ast.expr) -> bool:
    """Whether `part` is `optimizer.param_groups[...]["params"]`."""
    match part:
        case ast.Subscript(
            value=ast.Subscript(value=ast.Attribute(attr="param_groups", value=optimizer)),
            slice=ast.Constant(value="params"),
        ):
            return last_name(optimizer) in state.names
    return False


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
    """Whether all that `value` calls keeps the order, and what it names is not transposed, nor the
    variables in it but the `known`; of one that is the `whole`, and not assigned, nobody knows.
    """
    names = {last_name(at) for at in ast.walk(value) if isinstance(at, ast.Attribute)}
    called = {last_name(call.func) for call in calls_in(value)}
    products = any(isinstance(at, ast.MatMult) for at in ast.walk(value))
    if not called <= _IN_ORDER | _FEWER or names & {"T", "mT", "H", "mH"} or products:
        return False
    if whole and isinstance(value, ast.Call) and last_name(value.func) in _FEWER:
        return False
    read = names_in(value) - known
    given = [each for name in read for each in _given_to_it(script, value, name)]
    whole = whole and isinstance(value, ast.Name)
    if whole and read and (not given or None in given):
        return False
    told = [each for each in given if each is not None]
    return all(_keeps_order(script, each, known | read, whole=whole) for each in told)


def _given_to_it(script: Script, at: ast.expr, name: str) -> Iterator[ast.expr | None]:
    """What the variable `name` is given where `at` lies; None for what no assignment gives it."""
    function = script.function(at)
    if function and name in parameters(function):
        yield None
    for node in stored_in(script.nodes):
        own = isinstance(node, ast.Name) and node.id == name
        if own and script.function(node) is function:
            statement = script.statement(node)
            yield statement.value if isinstance(statement, ast.Assign) else None
