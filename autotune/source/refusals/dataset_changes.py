"""Where a program changes its dataset: workers have copies of it, from the start of an epoch, or,
where they live on, from the start.
"""

import ast
import os
from collections.abc import Collection, Iterator

from autotune.source.calls.building import Building
from autotune.source.calls.keywords import given_value
from autotune.source.loops.around_training import loops_of_training, running
from autotune.source.program import Program
from autotune.source.reach import callers
from autotune.source.script import Function, Script, last_name

_DATASET = "dataset"
# NumPy's methods that write into an array, and its functions that write into the first they get.
_FILLING = frozenset(("fill", "sort", "partition", "put", "itemset"))
_FILLED_FIRST = frozenset(("copyto", "put", "put_along_axis", "putmask", "place", "shuffle"))


def changed_later(program: Program, at: Building) -> str:
    """Where what runs in the loop over epochs calls a method of the dataset that the loader which
    is built `at` is given, or sets an attribute of it: file and line, "" where it is not seen to.
    """
    _, over_epochs = loops_of_training(program)
    return _changed_in(program, running(program, over_epochs), at)


def changed_meanwhile(program: Program, at: Building) -> str:
    """The same of what runs in the loop over batches, the functions round it left out, which may go
    by a name that is called in it (`model.train()`).
    """
    return _changed_in(program, _running_meanwhile(program), at)


def set_later(
    program: Program, name: str, kinds: Collection[str], *, is_array: bool = False
) -> str:
    """Where what runs in the loop over epochs sets the attribute `name` of an object of `kinds`, or
    without any that item of a dict, by whatever name it has that object or dict, or of an array
    (`is_array`) some of what is in it: file and line, "" where it is not seen to.
    """
    _, over_epochs = loops_of_training(program)
    return _set_in(program, running(program, over_epochs), name, kinds, is_array)


def set_meanwhile(
    program: Program, name: str, kinds: Collection[str], *, is_array: bool = False
) -> str:
    """The same of what runs in the loop over batches; see `changed_meanwhile`."""
    return _set_in(program, _running_meanwhile(program), name, kinds, is_array)


def _set_in(
    program: Program, ran: set[ast.AST], name: str, kinds: Collection[str], is_array: bool
) -> str:
    for script in program.scripts.values():
        if name not in script.text:
            continue
        for node in ast.walk(script.tree):
            if node not in ran or not isinstance(node, ast.Assign | ast.AugAssign | ast.Call):
                continue
            targets = list(_written_into(node)) if is_array else _assigned(node)
            if any(_is_setting(script, each, name, kinds) for each in targets):
                return f"{os.path.basename(script.path)}:{node.lineno}"
    return ""


def _assigned(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AugAssign(target=target):
            return [target]
    return []


def _written_into(node: ast.AST) -> Iterator[ast.expr]:
    """The arrays and tensors that `node` writes into: items of them, by an operator, by a method
    (`table.index_copy_(...)`), or by a function that is given one for its result.
    """
    match node:
        case ast.AugAssign(target=ast.Attribute() as target):
            yield target
        case ast.Assign() | ast.AugAssign():
            yield from (at.value for at in _assigned(node) if isinstance(at, ast.Subscript))
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=given, keywords=named):
            if method in _FILLING or (method.endswith("_") and not method.endswith("__")):
                yield owner.value if isinstance(owner, ast.Subscript) else owner
            yield from given[:1] if method in _FILLED_FIRST else ()
            yield from (each.value for each in named if each.arg == "out")


def _is_setting(script: Script, target: ast.expr, name: str, kinds: Collection[str]) -> bool:
    """Whether `target` is that attribute or item; what an object sets as it is made is its own."""
    match target:
        case ast.Subscript(slice=ast.Constant(value=key)):
            return not kinds and key == name
        case ast.Attribute(attr=attribute, value=owner) if kinds and attribute == name:
            around = list(script.ancestors(target))
            made = any(isinstance(at, Function) and at.name == "__init__" for at in around)
            of = next((at.name for at in around if isinstance(at, ast.ClassDef)), "")
            own = isinstance(owner, ast.Name) and owner.id == "self"
            return not made and (not own or of in kinds)
    return False


def _running_meanwhile(program: Program) -> set[ast.AST]:
    over_batches, _ = loops_of_training(program)
    inside = {node for loop in over_batches for node in ast.walk(loop)}
    holders = (at.function(loop) for at in program.scripts.values() for loop in over_batches)
    around = {name for at in holders if at is not None for name in callers(program, at.name)}
    apart = {
        node
        for script in program.scripts.values()
        for function in ast.walk(script.tree)
        if isinstance(function, Function) and function.name in around
        for node in ast.walk(function)
    }
    return running(program, over_batches) - (apart - inside)


def _changed_in(program: Program, ran: set[ast.AST], at: Building) -> str:
    given = given_value(at.call, _DATASET, at.signature)
    name, changers = last_name(given) if given is not None else "", _changers(program)
    for script in program.scripts.values():
        for node in ast.walk(script.tree):
            if not isinstance(node, ast.stmt) or node not in ran:
                continue
            if any(_is_dataset(script, each, name) for each in _changed(node, changers)):
                return f"{script.path}:{node.lineno}"
    return ""


def _changers(program: Program) -> frozenset[str]:
    """The names of methods of the program's classes that set attributes of their own, or what
    these hold.
    """
    return frozenset(
        method.name
        for script in program.scripts.values()
        for kind in ast.walk(script.tree)
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("__")
        if any(
            isinstance(changed, ast.Name) and changed.id == "self"
            for node in ast.walk(method)
            if isinstance(node, ast.Assign | ast.AugAssign)
            for changed in _set(node)
        )
    )


def _changed(node: ast.stmt, changers: Collection[str]) -> list[ast.expr]:
    """What the statement `node` calls a method of for its own sake, or one of the `changers`
    whatever for, and what it sets attributes of.
    """
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=changed))):
            return [changed]
        case ast.Assign() | ast.AugAssign():
            called = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
            methods = (each for each in called if isinstance(each, ast.Attribute))
            return [*_set(node), *(each.value for each in methods if each.attr in changers)]
    return []


def _set(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    """What `node` sets attributes of, or items of such."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    inside = (each.value if isinstance(each, ast.Subscript) else each for each in targets)
    return [each.value for each in inside if isinstance(each, ast.Attribute)]


def _is_dataset(script: Script, changed: ast.expr, name: str) -> bool:
    if isinstance(changed, ast.Attribute) and changed.attr == _DATASET:
        return True
    if not name or last_name(changed) != name or _is_of_a_tensor(changed):
        return False
    loops = (at for at in script.ancestors(changed) if isinstance(at, ast.For))
    drawn = {leaf.id for at in loops for leaf in ast.walk(at.target) if isinstance(leaf, ast.Name)}
    return not (isinstance(changed, ast.Name) and name in drawn)


def _is_of_a_tensor(changed: ast.expr) -> bool:
    """Whether it is `weight.data`, and no dataset of that name."""
    return (
        isinstance(changed, ast.Attribute)
        and changed.attr == "data"
        and not (isinstance(changed.value, ast.Name) and changed.value.id == "self")
    )
