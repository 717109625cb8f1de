"""What functions that make samples number, or change as they go, so that order matters."""

import ast
from collections.abc import Iterator, Sequence

from autotune.source.calls.writes import assigned
from autotune.source.script import Function, last_name, parameters, shared_names, stored_names

# By which tables count, or remember what came.
_COUNTING = frozenset(("update", "subtract", "add", "append", "appendleft", "extend"))
_DROPPING = frozenset(("pop", "popleft", "popitem", "remove", "discard", "clear"))
_ITSELF = frozenset(("self", "cls"))
# Functions that open what stays the same or tell the time, and that make something empty.
_OPENING = ("open", "File", "Environment", "time", "perf_counter", "monotonic")
_EMPTY = ("dict", "list", "set", "OrderedDict")
# Functions that say something, or write it down, and make nothing of it.
SAYING = frozenset(
    (
        *("print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log"),
        "write",
    )
)


def numbered(function: Function) -> Iterator[str]:
    """The tables that `function` numbers new things in: of `self.ids[word] = len(self.ids)`."""
    counted = {
        ast.unparse(at.target)
        for at in ast.walk(function)
        if isinstance(at, ast.AugAssign) and _is_kept(function, at.target)
    }
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=table)], value=number):
                pass
            case ast.Call(func=ast.Attribute(value=table, attr="setdefault"), args=[_, number]):
                pass
            case ast.Call(func=ast.Attribute(value=table, attr="index"), args=[_]):
                number = table if _appends(function, table) else ast.Constant(value=None)
            case _:
                continue
        name = ast.unparse(table)
        told = {ast.unparse(at) for each in _meant(function, number) for at in ast.walk(each)}
        numbers = {f"len({name})", f"{name}.__len__()"} | counted
        if _is_kept(function, table) and (number is table or told & numbers):
            yield name


def changed_on(functions: Sequence[Function]) -> Iterator[str]:
    """The attributes that `functions` change as they go, never begin anew, and make samples by."""
    begun = {name for function in functions for name in _begun_anew(function)}
    changed = {
        ast.unparse(target)
        for function in functions
        for target in _made_of_themselves(function)
        if _is_kept(function, target)
    }
    for name in sorted(changed - begun):
        if any(_goes_by(function, name, functions) for function in functions):
            yield name


def _made_of_themselves(function: Function) -> Iterator[ast.expr]:
    """`self.n` of `self.n += 1`, `self.n = self.n + 1`, `self.n[index] += 1` and the like."""
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and (counted := _counted(function, node)) is not None:
            yield counted
        match node:
            case ast.AugAssign(target=ast.Attribute() as target):
                yield target
            case ast.Assign(targets=[ast.Attribute() as target], value=value) if not isinstance(
                value, ast.BoolOp | ast.IfExp
            ) and ast.unparse(target) in map(ast.unparse, _attributes(value)):
                yield target


def _counted(function: Function, node: ast.stmt) -> ast.expr | None:
    """The table in which `node` counts what `function` is given: no cache of what it makes."""
    given = set(parameters(function))
    match node:
        case ast.AugAssign(target=ast.Subscript(value=ast.Attribute() as table)):
            return table
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Attribute() as table, attr=name), args=args)
        ) if name in _COUNTING and args:
            parts = [at for each in args for at in ast.walk(each)]
            names = {at.id for at in parts if isinstance(at, ast.Name)}
            called = any(isinstance(at, ast.Call) for at in parts)
            return table if names and names <= given and not called else None
    return None


def _begun_anew(function: Function) -> Iterator[str]:
    """`self.at` of `self.at = 0`, whatever comes first in `function`."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.BoolOp | ast.IfExp):
            mentioned = {*map(ast.unparse, _attributes(node.value))}
            yield from {*map(ast.unparse, assigned(node))} - mentioned
        if isinstance(node, ast.With | ast.Try):
            waiting += node.body


def _attributes(value: ast.expr) -> list[ast.Attribute]:
    return [each for each in ast.walk(value) if isinstance(each, ast.Attribute)]


def _goes_by(function: Function, name: str, functions: Sequence[Function]) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr) or _says(node) or _is_apart(function, node):
            continue
        if name in map(ast.unparse, assigned(node)):
            continue
        counted = _counted(function, node) if isinstance(node, ast.stmt) else None
        if counted is not None and ast.unparse(counted) == name:
            continue
        if isinstance(node, ast.Attribute) and ast.unparse(node) == name:
            return True
        asked = _asked_for_nothing(function, node)
        if asked is not None and _draws_anew(node, name, functions):
            asked = None
        waiting += (each for each in ast.iter_child_nodes(node) if each is not asked)
    return False


def _asked_for_nothing(function: Function, node: ast.AST) -> ast.expr | None:
    """The test of `node` where what it decides makes nothing of a sample."""
    match node:
        case ast.If(test=test, body=body) if _makes_nothing(function, body):
            return test
        case ast.While(test=test, body=body) if all(_is_apart(function, each) for each in body):
            return test
    return None


def _draws_anew(node: ast.AST, name: str, functions: Sequence[Function]) -> bool:
    """Whether `node`, or its own method, draws anew something else that `functions` read."""
    called = {*map(_own_method, ast.walk(node))}
    methods = [each for each in functions if each.name in called]
    apart = (node, *methods)
    made = {each for part in apart for at in ast.walk(part) for each in _made_anew(at)}
    nodes = [at for each in functions for at in ast.walk(each)]
    drawn = {each for at in nodes if _may_draw(at) for each in _made_anew(at)}
    read = {ast.unparse(at) for each in functions for at in _read_in(each, apart)}
    return bool(read & made & drawn - {name})


def _own_method(node: ast.AST) -> str:
    """The method of its own that `node` calls, "" where it calls none."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
            return name
    return ""


def _read_in(function: ast.AST, apart: Sequence[ast.AST]) -> Iterator[ast.Attribute]:
    """The attributes that `function` reads, but in what is `apart`, or to say them."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        if node in apart or isinstance(node, ast.JoinedStr) or _says(node):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node
        waiting += ast.iter_child_nodes(node)


def _made_anew(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign():
            for each in assigned(node):
                match each:
                    case ast.Subscript(value=ast.Attribute() as whole, slice=ast.Slice()) | (
                        ast.Attribute() as whole
                    ):
                        yield ast.unparse(whole)
        case ast.Call(args=[shuffled]) if last_name(node.func) == "shuffle":
            yield ast.unparse(shuffled)


def _may_draw(node: ast.AST) -> bool:
    """Whether what `node` makes may be another each time: no constant, nothing empty, no file."""
    match node:
        case ast.Assign(value=ast.Constant() | ast.Dict(keys=[]) | ast.List(elts=[])):
            return False
        case ast.Assign(value=ast.Call(func=function, args=args)):
            return last_name(function) not in (_OPENING if args else (*_OPENING, *_EMPTY))
    return True


def _makes_nothing(function: Function, body: Sequence[ast.stmt]) -> bool:
    """Whether `body` says something, or keeps something, and makes nothing of a sample."""
    return all(
        isinstance(each, ast.Pass | ast.Raise | ast.Expr)
        or _is_apart(function, each)
        or (
            isinstance(each, ast.Assign | ast.AugAssign)
            and not any(isinstance(at, ast.Name) for at in assigned(each))
        )
        for each in body
    )


def _says(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in SAYING


def _is_apart(function: Function, node: ast.AST) -> bool:
    """Whether `node` drops a part of what is kept, or is a value only to do so, or to be said."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name) as target]) if not _is_kept(function, target):
            serving = (at for at in ast.walk(function) if _says(at) or _drops(function, at))
            found = {part for at in serving for part in ast.walk(at)}
            names = (at for at in ast.walk(function) if isinstance(at, ast.Name) and at.id == name)
            return all(at in found for at in names if isinstance(at.ctx, ast.Load))
    return _drops(function, node)


def _drops(function: Function, node: ast.AST) -> bool:
    match node:
        case ast.Delete(targets=targets):
            return all(_is_kept(function, each) for each in targets)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=table, attr=name))):
            return name in _DROPPING and _is_kept(function, table)
    return False


def _meant(function: Function, number: ast.expr) -> list[ast.expr]:
    """`number`, or what `function` gives a variable of that name."""
    if not isinstance(number, ast.Name):
        return [number]
    return [
        at.value
        for at in ast.walk(function)
        if isinstance(at, ast.Assign) and number.id in map(last_name, at.targets)
    ]


def _appends(function: Function, table: ast.expr) -> bool:
    return any(
        isinstance(at, ast.Call) and ast.unparse(at.func) == f"{ast.unparse(table)}.append"
        for at in ast.walk(function)
    )


def _is_kept(function: Function, part: ast.expr) -> bool:
    """Whether `part` is of what is still there when `function` has ended."""
    while isinstance(part, ast.Attribute | ast.Subscript):
        part = part.value
    if not isinstance(part, ast.Name):
        return False
    given = set(parameters(function))
    own = stored_names(function) | given
    return part.id in _ITSELF or part.id not in own - shared_names(function)
