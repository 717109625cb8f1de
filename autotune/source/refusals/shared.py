"""What several workers would share badly: files of a cache that are filled, parts of a stream."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from autotune.source.calls.writes import given_values
from autotune.source.named import functions_by_name
from autotune.source.program import Program
from autotune.source.reach import argument, calls_in, is_bound
from autotune.source.refusals.rewritten_files import making, writes
from autotune.source.script import Function, Script, last_name, names_in

_THERE = frozenset(("exists", "is_file", "isfile", "lexists"))
_MISSING = frozenset(("FileNotFoundError", "OSError", "IOError"))
# What puts a file there as a whole, or lets in one at a time.
_CAREFUL = frozenset(
    (
        *("replace", "rename", "renames", "link", "move", "flock", "lockf", "FileLock", "Lock"),
        *("NamedTemporaryFile", "mkstemp", "atomic_write"),
    )
)
# What finds one of a few for many: the shard of a sample.
_GROUPING = frozenset(("divmod", "bisect", "bisect_left", "bisect_right", "searchsorted"))
_NUMBER = "num_workers"  # as torch calls it
_ROUND_DOWN = frozenset(("int", "floor"))
_ROUND_UP = frozenset(("ceil", "divmod", "array_split"))
_OF_A_BUFFER = re.compile(r"buf|prefetch|queue|cache|memory", re.IGNORECASE)


def filled_by_several(program: Program) -> str:
    """Where making a sample writes a file that is not there yet, and that others read too."""
    makers = making(program)
    made = {
        function: script
        for script in program.scripts.values()
        for functions in functions_by_name(script).values()
        for function in functions
        if function in makers
    }
    calls = [call for function in made for call in calls_in(function)]
    asks = any(last_name(call.func) in _THERE for call in calls) or any(map(_catches_missing, made))
    if not asks or any(map(_is_careful, calls)):
        return ""
    numbers = _numbers(made)
    for function, script in made.items():
        for node in ast.walk(function):
            for use in writes(program, script, node):
                if use.of is not None and numbers.names_several(use.of):
                    return use.place
    return ""


def _is_careful(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=owner, attr="replace" | "rename") if last_name(owner) != "os":
            return len(call.args) == 1 and not call.keywords  # a path's, no text's, no table's
    return last_name(call.func) in _CAREFUL


def _catches_missing(function: Function) -> bool:
    handlers = (at for at in ast.walk(function) if isinstance(at, ast.ExceptHandler))
    return any(at.type is not None and names_in(at.type) & _MISSING for at in handlers)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What is computed from a sample's index: its `own` number, or one `shared` as a shard's is."""

    own: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)

    def names_several(self, value: ast.expr) -> bool:
        """Whether `value` goes by one number that several samples share, and not by the index."""
        parts = list(self._parts(value))
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        grouped = sum(not isinstance(part, ast.Name) for part in parts)
        return not names & self.own and len(names & self.shared) + grouped == 1

    def learn(self, name: str, value: ast.expr) -> bool:
        """Note what `value` gives the variable `name`; whether that was not known."""
        several = self.names_several(value)
        known = {part.id for part in self._parts(value) if isinstance(part, ast.Name)}
        if name in self.own or not (several or known & (self.own | self.shared)):
            return False
        into = self.shared if several else self.own
        is_new = name not in into
        into.add(name)
        return is_new

    def _parts(self, value: ast.AST) -> Iterator[ast.AST]:
        """The variables in `value`, and what puts many together (`index // 64`) instead."""
        if isinstance(value, ast.Name) or self._puts_together(value):
            yield value
            return
        for part in ast.iter_child_nodes(value):
            yield from self._parts(part)

    def _puts_together(self, value: ast.AST) -> bool:
        match value:
            case ast.BinOp(left=of, op=ast.FloorDiv() | ast.Mod()):
                return bool(names_in(of) & (self.own | self.shared))  # no text: `"%d.npy" % index`
            case ast.Call(func=function, args=given) if last_name(function) in _GROUPING:
                return any(names_in(each) & (self.own | self.shared) for each in given)
        return False


def _numbers(made: dict[Function, Script]) -> _Numbers:
    """What the functions `made` compute from the index that a sample is asked for by."""
    found = _Numbers()
    for function in made:
        if function.name == "__getitem__":
            found.own.update(each.arg for each in function.args.args[1:])
    given = [each for function in made for each in _given(function, made)]
    while sum(found.learn(name, value) for name, value in given):
        pass
    return found


def _given(function: Function, made: dict[Function, Script]) -> Iterator[tuple[str, ast.expr]]:
    """Names that are given values in `function`, and the parameters of what it calls."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((name, value) for target in targets for name in names_in(target))
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, value
            case ast.Call():
                for other, script in made.items():
                    if other.name == last_name(node.func):
                        yield from _handed(node, other, bound=is_bound(script, other))


def _handed(call: ast.Call, function: Function, *, bound: bool) -> Iterator[tuple[str, ast.expr]]:
    for parameter in function.args.args:
        value = argument(call, function, parameter.arg, bound=bound)
        if value is not None and value is not call:
            yield parameter.arg, value


def shared_out_rounded_down(program: Program) -> str:
    """Where each worker's share is `len(shards) // info.num_workers`, and the rest is nobody's."""
    for script, function in program.functions():
        asks = "get_worker_info" in (last_name(call.func) for call in calls_in(function))
        share = next(_shares(function), None) if asks else None
        if share is not None and function.name != "__len__" and not _has_rest(function):
            return script.at(share)
    return ""


def _shares(function: ast.AST) -> Iterator[ast.expr]:
    numbers = _names_of_number(function)
    for node in ast.walk(function):
        match node:
            case ast.BinOp(left=ast.UnaryOp()):  # `-(-n // workers)`
                continue
            case ast.BinOp(left=ast.BinOp(op=ast.Mult())):  # `(id + 1) * n // workers`: to the end
                continue
            case ast.BinOp(left=of) if _OF_A_BUFFER.search(ast.unparse(of)):  # no samples
                continue
            case ast.BinOp(op=ast.FloorDiv(), right=by) if last_name(by) in numbers:
                yield node
            case ast.Call(func=called, args=[ast.BinOp(op=ast.Div(), right=by)]) if (
                last_name(called) in _ROUND_DOWN and last_name(_number(by)) in numbers
            ):
                yield node


def _number(by: ast.expr) -> ast.expr:
    """`workers` of `float(workers)`."""
    match by:
        case ast.Call(func=ast.Name(id="float" | "int"), args=[number]):
            return number
    return by


def _has_rest(function: ast.AST) -> bool:
    """Whether it rounds up, takes a remainder, or asks which worker is the last."""
    numbers = _names_of_number(function)
    for node in ast.walk(function):
        match node:
            case ast.BinOp(op=ast.Mod(), right=by) if last_name(by) in numbers:
                return True
            case ast.BinOp(left=number, op=ast.Sub(), right=ast.Constant(value=1)) if last_name(
                number
            ) in numbers or _adds(number, numbers):
                return True
            case ast.BinOp(op=ast.Sub(), right=ast.BinOp(left=one, op=ast.Mult(), right=by)) if (
                not numbers.isdisjoint((last_name(one), last_name(by)))  # `n - share * workers`
            ):
                return True
            case ast.Call(func=called) if last_name(called) in _ROUND_UP:
                return True
    return False


def _adds(node: ast.expr, numbers: set[str]) -> bool:
    """Whether it is `n + workers`."""
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(last_name(each) in numbers for each in parts)


def _names_of_number(function: ast.AST) -> set[str]:
    """The names that the number of workers has there."""
    found = {_NUMBER}
    for target, value in (pair for at in ast.walk(function) for pair in given_values(at)):
        if last_name(value) in found and (name := last_name(target)):
            found.add(name)
    return found
