"""Whether something goes by a count of batches: smaller batches reach its end sooner."""

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from autotune.source.calls.writes import given_or_added
from autotune.source.loops.indirect import Called
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Function, Script, last_name, names_in, shared_names, stored_names

_DECIDING = (ast.Mod, ast.FloorDiv, ast.Pow, ast.Mult)
# What is called with a count and does no more than say or keep it.
_KEEPING = frozenset(["str", "int", "float", "append", "format"])
_SAVING = frozenset(["save", "flush", "update"])
# What else is called to make a text.
_WRITING = frozenset(["join", "len", "repr", "round", "time"])
SAYING = frozenset(
    [
        *("print", "log", "info", "debug", "warning", "write", "add_scalar", "add_scalars"),
        *("log_metrics", "set_postfix", "set_description"),
    ]
)


def deciding_counter(
    program: Program, script: Script, body: Iterable[ast.AST], functions: Iterable[Called]
) -> str:
    """The code of a count that `body`, in `script`, or one of the `functions` that it calls keeps
    and the program decides by, "" where there is none; what is only said, or divided by it, is no
    decision.
    """
    kept = [(script, target) for target in counted(body)]
    kept += [(at.script, target) for at in functions for target in _kept_counts(at.node)]
    saying = SAYING | saying_functions(program) if kept else SAYING
    scripts = program.scripts.values() if kept else ()
    decided = {
        each.path: {key for at in _undecided(each.tree, saying) for key in _deciding(at, saying)}
        for each in scripts
    }
    anywhere = set[str]().union(*decided.values())
    for holder, target in kept:
        alone = isinstance(target, ast.Name)
        if _key(target) in (decided[holder.path] if alone else anywhere):
            return holder.code(target)
    return ""


def saying_functions(program: Program) -> frozenset[str]:
    """The names of functions of the program that do no more than say what they are given."""
    functions = [at for _, at in program.functions()]
    others = {at.name for at in functions if not _only_says(at)}
    return frozenset({at.name for at in functions} - others)


def _only_says(function: Function) -> bool:
    """Whether `function` says something, gives nothing back and leaves nothing else behind."""
    kinds = ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom | ast.Raise | ast.Delete
    inside = [at for statement in function.body for at in ast.walk(statement)]
    stores = (at for at in inside if isinstance(at, ast.Attribute | ast.Subscript))
    called = {last_name(call.func) for call in calls_in(ast.Module(function.body, []))}
    harmless = called <= SAYING | _KEEPING | _WRITING and bool(called & SAYING)
    changes = any(not isinstance(at.ctx, ast.Load) for at in stores)
    changes |= any(isinstance(at, ast.Return) and at.value is not None for at in inside)
    return harmless and not changes and not any(isinstance(at, kinds) for at in inside)


def _kept_counts(function: Function) -> Iterator[ast.expr]:
    """What `function` counts and still has when it is called again."""
    shared = shared_names(function)
    for target in counted(ast.walk(function)):
        if not isinstance(target, ast.Name) or target.id in shared:
            yield target


def goes_by_index(
    index: str,
    body: Sequence[ast.AST],
    loss: Collection[str],
    late: int,
    saying: Collection[str] = (),
) -> bool:
    """Whether the `loss`, on lines before `late`, comes from `index`, the number of the batch, or
    more is done by it in `body` than to say or keep something, as the functions `saying` do.
    """
    by_index = {index}
    while more := _made_from(body, by_index, late) - by_index:
        by_index |= more
    harmless = SAYING | _KEEPING | _SAVING | frozenset(saying)
    values = (at.value for at in body if isinstance(at, ast.Expr))
    done = [at for at in values if isinstance(at, ast.Call) and last_name(at.func) not in harmless]
    under = [at for test in _tests(body, by_index) for at in ast.walk(test)]
    return bool(by_index & set(loss)) or any(at in under or names_in(at) & by_index for at in done)


def _made_from(body: Sequence[ast.AST], names: set[str], late: int) -> set[str]:
    """The variables that are given a value from `names`, or another one than 0 by them."""
    found: set[str] = set()
    under = {at for test in _tests(body, names) for at in ast.walk(test)}
    early = [at for at in body if isinstance(at, ast.Assign) and at.lineno < late]
    anew = set[str]().union(*(stored_names(at) for at in early if at not in under))
    for node in body:
        for place, value in given_or_added(node):
            decided = node in under and not _is_zero(value)
            decided &= place.lineno < late or not stored_names(place) <= anew
            if names_in(value) & names or decided:
                found |= stored_names(place)
    return found


def _is_zero(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == 0 and value.value is not False


def _tests(body: Sequence[ast.AST], names: set[str]) -> list[ast.If | ast.While]:
    """The statements of `body` that are run by a test of one of `names`."""
    return [at for at in body if isinstance(at, ast.If | ast.While) and names_in(at.test) & names]


def counted(body: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What goes up by the same number each time."""
    for node in body:
        match node:
            case ast.AugAssign(op=ast.Add(), target=target, value=ast.Constant(value=int())):
                yield target
            case ast.Assign(
                targets=[target],
                value=ast.BinOp(op=ast.Add(), left=left, right=ast.Constant(value=int())),
            ) if ast.dump(_loaded(target)) == ast.dump(left):
                yield target


def _loaded(target: ast.expr) -> ast.expr:
    """`target` as it looks where it is read."""
    match target:
        case ast.Name(id=name):
            return ast.Name(id=name, ctx=ast.Load())
        case ast.Attribute(value=value, attr=name):
            return ast.Attribute(value=value, attr=name, ctx=ast.Load())
        case ast.Subscript(value=value, slice=place):
            return ast.Subscript(value=value, slice=place, ctx=ast.Load())
    return target


def _undecided(tree: ast.AST, saying: Collection[str]) -> Iterator[ast.AST]:
    """All of `tree` but statements that only say something now and then."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        says = isinstance(node, ast.If) and not node.orelse
        if not (says and all(_says(at, saying) for at in getattr(node, "body", []))):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _says(statement: ast.stmt, saying: Collection[str]) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return last_name(function) in saying
    return False


def _deciding(node: ast.AST, saying: Collection[str]) -> Iterator[str]:
    """What `node` compares, reckons with or looks something up by."""
    match node:
        case (
            ast.While(test=part)
            | ast.If(test=part)
            | ast.IfExp(test=part)
            | ast.BinOp(op=ast.Div(), left=part)
            | ast.Subscript(slice=part, ctx=ast.Load())
        ):
            yield from _read_in(part)
        case ast.Compare():
            yield from _read_in(node)
        case ast.BinOp(op=operation) if isinstance(operation, _DECIDING):
            yield from _read_in(node)
        case ast.Call(func=function, args=given, keywords=named) if (
            last_name(function) not in saying and last_name(function) not in _KEEPING
        ):
            yield from map(_key, (*given, *(each.value for each in named)))


def _read_in(node: ast.AST) -> Iterator[str]:
    called = [call.func for call in calls_in(node)]
    return (_key(at) for at in ast.walk(node) if isinstance(at, ast.expr) and at not in called)


def _key(place: ast.expr) -> str:
    """What is equal for places that may be the same: attributes of one name, of whatever object."""
    match place:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return f".{name}"
        case ast.Subscript(slice=ast.Constant(value=key)):
            return f"[{key!r}]"
        case ast.Subscript():
            return ast.unparse(place)
    return ""
