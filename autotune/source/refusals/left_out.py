"""Where a model leaves out parts of itself in some steps: their weights have no gradient then."""

import ast
from collections.abc import Iterator, Sequence, Set

from autotune.source.loops.around_training import Loop, loops_of_training, running
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.late_terms import asks_for_kind, changes, late_term, without
from autotune.source.places import backward_call
from autotune.source.program import Program, Refusal
from autotune.source.reach import argument, calls_in
from autotune.source.script import Function, Script, last_name, names_in, parameters, stored_names

_MODE = "self.training"  # the same in each step of a training
_GOING_OVER = frozenset(("range", "enumerate", "len", "zip", "reversed", "sorted", "list"))
_MAKING = frozenset(("__init__", "__post_init__", "__setstate__"))


def left_out(program: Program) -> str:
    """Where a part of a model, or a loss, is used by a condition that may change later."""
    inner, outer = loops_of_training(program)
    ran = running(program, inner)
    later = _attributes_set(program, ran | running(program, outer))
    for script in program.scripts.values():
        for node in (at for at in script.nodes if at in ran and _is_of_a_model(script, at)):
            for test in _tests(script, node):
                if _may_change(program, script, test, later):
                    return script.at(test)
    try:
        backward = backward_call(program, "")
    except Refusal:
        return ""
    around = (at for at in backward.script.ancestors(backward.node) if isinstance(at, Loop))
    return next((late_term(program, backward, loop) for loop in around), "")


def _attributes_set(program: Program, ran: Set[ast.AST]) -> set[str]:
    """Those that are given a value by what runs in the training, but as an object is made."""
    return {
        node.attr
        for script, node in program.nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node in ran
        if (function := script.function(node)) is None or function.name not in _MAKING
    }


def _is_of_a_model(script: Script, node: ast.AST) -> bool:
    """Whether `node` stands in a method of a module, other than where that is made."""
    function = script.function(node)
    kind = next(script.ancestors(function), None) if function is not None else None
    if function is None or not isinstance(kind, ast.ClassDef) or function.name in _MAKING:
        return False
    of_torch = any(last_name(base).endswith("Module") for base in kind.bases)
    return of_torch or any(isinstance(at, Function) and at.name == "forward" for at in kind.body)


def _tests(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    """By what `node` uses some of the model's parts, or does not."""
    match node:
        case ast.If(test=test, body=body, orelse=other):
            leaves = isinstance(body[-1], ast.Return | ast.Continue | ast.Break)
            if leaves or _uses_parts(script, [*body, *other]):
                yield test
        case ast.IfExp(test=test, body=one, orelse=two) if _uses_parts(script, [one, two]):
            yield test
        case ast.Call(func=ast.Subscript(value=ast.Attribute(value=owner), slice=index)):
            if ast.unparse(owner) == "self":
                yield index
        case ast.For(iter=source, body=body) if _uses_parts(script, body):
            yield from _bounds(source, in_turn=_takes_in_turn(body))
        case ast.DictComp() | ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            for each in node.generators if _takes_in_turn([node]) else ():
                yield from _bounds(each.iter, in_turn=True)


def _bounds(source: ast.expr, *, in_turn: bool) -> Iterator[ast.expr]:
    """By what a loop over `source` uses all parts or some, which it may take `in_turn`."""
    if in_turn and isinstance(source, ast.Name | ast.Attribute):
        yield source  # what it is told
    for at in ast.walk(source):
        match at:
            case ast.Subscript(slice=ast.Slice(lower=first, upper=last)):
                yield from (each for each in (first, last) if each is not None)
            case ast.Call(func=ast.Name(id="range"), args=args) if in_turn:
                yield from args
            case ast.Call() if in_turn and not (
                last_name(at.func) in _GOING_OVER or "self" in names_in(at.func)
            ):
                yield at  # `shop.unique()`


def _uses_parts(script: Script, nodes: Sequence[ast.AST]) -> bool:
    """Whether `nodes` call a part of their object, or with one, or a variable, as a loop's."""
    for call in (call for node in nodes for call in calls_in(node)):
        if any(isinstance(at, ast.Name) and at.id == "self" for at in ast.walk(call)):
            return True
        function = script.function(call)
        if function is not None and last_name(call.func) in stored_names(function):
            return True
    return False


def _takes_in_turn(body: Sequence[ast.AST]) -> bool:
    """Whether it calls `self.blocks[index](...)`."""
    return any(isinstance(call.func, ast.Subscript) for node in body for call in calls_in(node))


def _may_change(program: Program, script: Script, test: ast.expr, later: Set[str]) -> bool:
    """Whether `test`, of a model's method, may come out otherwise after some steps."""
    function = script.function(test)
    assert function is not None
    kinds = [at for at in ast.walk(test) if asks_for_kind(at, function.body)]
    others = list(without(test, kinds))
    if any(isinstance(at, ast.Call) for at in others):
        return True  # a draw, or of numbers
    read = {ast.unparse(at) for at in others if isinstance(at, ast.Name | ast.Attribute)} - {_MODE}
    asked = {
        code for at in kinds if isinstance(at, ast.expr) for code in code_in(at) if "." in code
    }
    if {name.rpartition(".")[2] for name in read | asked if "." in name} & later:
        return True
    loops = (at.target for at in ast.walk(function) if isinstance(at, ast.For | ast.comprehension))
    in_turn = set[str]().union(*map(stored_names, loops))
    if read & given_code(function.body) - in_turn:
        return True
    if any(_is_told(program, function, name) for name in read):
        return True
    return changes(program, script, test, (read | asked) - in_turn)


def _is_told(program: Program, method: Function, name: str) -> bool:
    """Whether a call of `method`, or of its object, gives `name` what is not written there."""
    if name not in parameters(method):
        return False
    for script in program.scripts.values():
        defined = {at.name for at in script.nodes if isinstance(at, Function | ast.ClassDef)}
        for call in script.calls:
            owner = ast.unparse(call.func).partition(".")[0]
            of_object = method.name == "forward" and owner not in script.imports.keys() | defined
            if of_object or last_name(call.func) == method.name:
                told = argument(call, method, name, bound=True)
                if told is not None and not isinstance(told, ast.Constant):
                    return True
    return False
