"""What a training carries from one batch to the next: the state of a recurrent model."""

import ast
from collections.abc import Iterator, Sequence

from autotune.source.loops.iteration import loop_that_trains
from autotune.source.program import Program
from autotune.source.reach import functions_named
from autotune.source.script import Function, given_to, last_name, names_in, straight

_BESTS = frozenset(("max", "min", "sum", "maximum", "minimum", "add"))
_OF_A_NUMBER = frozenset(("item", "float", "len"))
_DETACHED = frozenset(("detach", "detach_", "data"))


def carried_state(program: Program) -> str:
    """What a model is given again of the batch before, or keeps of it: its name, file and line."""
    return _of_the_loop(program) or _of_a_module(program)


def _of_the_loop(program: Program) -> str:
    place, found = program.places.backward, loop_that_trains(program)
    if place is None or found is None:
        return ""
    script, loop = found
    of_batch = _of_batch(loop)
    ahead = (at for each in loop.body for at in ast.walk(each) if isinstance(at, ast.Assign))
    for node in (at for at in ahead if at.lineno < place.line):
        if not isinstance(node.value, ast.Call) or last_name(node.value.func) in _BESTS:
            continue
        given = set(_given(node.value))
        carried = set(_targets(node.targets)) & given - set(_targets([loop.target]))
        for name in sorted(carried if (given - carried) & of_batch else ()):
            if not _is_set_anew(loop.body, node, name):
                return f"{name}, {script.at(node)}"
    return ""


def _of_batch(loop: ast.For) -> set[str]:
    """The variables that are, or are made of, what `loop` is given."""
    found = set(_targets([loop.target]))
    assigns = [at for each in loop.body for at in ast.walk(each) if isinstance(at, ast.Assign)]
    for node in assigns:
        if found & names_in(node.value):
            found |= set(_targets(node.targets))
    return found


def _targets(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _targets(target.elts)
        elif isinstance(target, ast.Name | ast.Attribute):
            yield ast.unparse(target)


def _given(call: ast.Call) -> Iterator[str]:
    """The variables among what `call` is given beside others."""
    given = given_to(call)
    if len(given) > 1:  # `x = f(x)` makes one thing of another
        for at in given:
            yield from _named(at)


def _named(value: ast.AST) -> Iterator[str]:
    """The variables in `value`, but for those of which a number is taken: a loss that is said."""
    match value:
        case ast.Call(func=function) if last_name(function) in _OF_A_NUMBER:
            return
        case ast.Name() | ast.Attribute():
            yield ast.unparse(value)
    for part in ast.iter_child_nodes(value):
        yield from _named(part)


def _is_set_anew(body: Sequence[ast.stmt], call: ast.stmt, name: str) -> bool:
    """Whether each step gives `name` another value ahead of `call`, and not by itself."""
    for statement in straight(body):
        if statement is call:
            return False
        if call in ast.walk(statement) and not isinstance(statement, ast.With):
            blocks = (getattr(statement, field, []) for field in ("body", "orelse", "finalbody"))
            around = (block for block in blocks if any(call in ast.walk(at) for at in block))
            return any(_is_set_anew(block, call, name) for block in around)
        if isinstance(statement, ast.Assign) and name in _targets(statement.targets):
            named = [
                ast.unparse(at) for at in ast.walk(statement.value) if isinstance(at, ast.expr)
            ]
            if name not in named:
                return True
    return False


def _of_a_module(program: Program) -> str:
    for script, function in functions_named(program, "forward"):
        nodes = list(ast.walk(function))
        read = {
            at.attr
            for at in nodes
            if isinstance(at, ast.Attribute)
            and isinstance(at.ctx, ast.Load)
            and last_name(at.value) == "self"
        }
        for node in nodes:
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(attr=name, value=ast.Name(id="self"))], value=value
                ) if name in read and _is_detached(value):
                    if not _is_kept_to_show(function, node, name):
                        return f"self.{name}, {script.at(node)}"
    return ""


def _is_kept_to_show(function: Function, given: ast.Assign, name: str) -> bool:
    """Whether each call of `function` sets `self.name` before it reads that."""
    loads = (
        at
        for at in ast.walk(function)
        if isinstance(at, ast.Attribute) and at.attr == name and isinstance(at.ctx, ast.Load)
    )
    ends = given.end_lineno, given.end_col_offset
    return given in straight(function.body) and all(
        (at.lineno, at.col_offset) > ends for at in loads
    )


def _is_detached(value: ast.expr) -> bool:
    """Whether `value` is what something was, cut from its graph: each part of a tuple or list."""
    match value:
        case ast.Attribute(value=owner, attr=name):
            return name in _DETACHED or _is_detached(owner)
        case (
            ast.Call(func=ast.Name(id="tuple" | "list"), args=[inner])
            | ast.Call(func=ast.Attribute() as inner)
            | ast.GeneratorExp(elt=inner)
            | ast.ListComp(elt=inner)
            | ast.Subscript(value=inner)
        ):
            return _is_detached(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(map(_is_detached, parts))
        case ast.IfExp(body=one, orelse=other):
            return _is_detached(one) or _is_detached(other)
    return False
