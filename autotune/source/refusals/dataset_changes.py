"""Where a program changes its dataset, of which workers have copies from the start of an epoch."""

import ast
import re
from collections.abc import Collection

from autotune.source.calls.building import Building, building
from autotune.source.calls.keywords import given_value
from autotune.source.calls.writes import assigned, values_given, written_into
from autotune.source.loops.around_training import (
    loops_of_training,
    running,
    running_in_training,
    running_meanwhile,
)
from autotune.source.loops.later import HELD_OUT
from autotune.source.program import Program, Refusal
from autotune.source.script import (
    Function,
    Script,
    given_to,
    last_name,
    names_in,
    parameters,
)

_DATASET = "dataset"
# How it and what has it are named; not what makes another (`handle.create_dataset`).
_OF_DATA = re.compile(r"(?!create|make|new)\w*(data|set|ds|loader|dl|datamodule|dm)")
# How methods are named that have what they are told from then on, however often they are called.
_SETTING = re.compile("^(set|switch|use)_|_mode$")
# Methods that have samples drawn in another order, or with other random numbers, and no others.
_DRAWN_ANEW = frozenset(("set_epoch", "set_seed", "seed", "shuffle", "resample", "reset"))
# Functions that change nothing of what they are given.
_READING = frozenset(
    (
        *("print", "len", "sum", "min", "max", "sorted", "str", "int", "float", "round", "repr"),
        *("format", "isinstance", "list", "tuple", "set", "zip", "enumerate", "range", "mean"),
        *("info", "debug", "warning"),
    )
)


def changed_later(program: Program, at: Building) -> str:
    """Where the loop over epochs, unless each turn builds its loader, changes the dataset."""
    _, over_epochs = loops_of_training(program)
    if _is_built_in(at, over_epochs[:1]):
        return changed_meanwhile(program, at)
    return _changed_in(program, running(program, over_epochs), at)


def changed_meanwhile(program: Program, at: Building) -> str:
    """The same of what runs in the loop over batches."""
    return _changed_in(program, running_meanwhile(program), at)


def _is_built_in(at: Building, loops: list[ast.AST]) -> bool:
    """Whether the loader is built `at` each turn of one of `loops`, on no condition."""
    for node in at.call.script.ancestors(at.call.node):
        if node in loops or isinstance(node, ast.If | ast.IfExp | ast.Try | Function):
            return isinstance(node, ast.For | ast.While)
    return False


def changed_in_training(program: Program) -> str:
    """Where the training changes its loader's dataset, so that later samples may be others."""
    try:
        at = building(program, "num_workers", "")
    except Refusal:  # which it is cannot be told
        return ""
    ran = running_in_training(program)
    return _changed_in(program, ran - _made_or_tried(program), at, _DRAWN_ANEW)


def _made_or_tried(program: Program) -> set[ast.AST]:
    """What is done where an object is made, or a model is tried on data that are kept for that."""
    return {
        node
        for _, function in program.nodes()
        if isinstance(function, ast.FunctionDef)
        if function.name == "__init__" or HELD_OUT.search(function.name.lower())
        for node in ast.walk(function)
    }


def _changed_in(
    program: Program, ran: set[ast.AST], at: Building, passed: frozenset[str] = frozenset()
) -> str:
    given = given_value(at.call, _DATASET, at.signature)
    name, changers = last_name(given) if given is not None else "", _changers(program)
    readers, changers = _readers(program) | passed, changers - passed
    made, builder = _made_with(program, at, name), at.call.script.function(at.call.node)
    for script, node in program.nodes():
        if not isinstance(node, ast.stmt) or node not in ran:
            continue
        if _is_put_back(script, node) or _is_set_alike(program, ran, node):
            continue
        found = (each for each in _changed(node, changers, readers) if each not in made)
        if any(_is_dataset(script, each, name, builder) for each in found):
            return script.at(node)
    return ""


def _is_put_back(script: Script, node: ast.stmt) -> bool:
    """Whether `node` sets a constant for a while only: its block does so twice."""
    code = _constant_set(node)
    return code != "" and [_constant_set(at) for at in script.block(node)].count(code) > 1


def _is_set_alike(program: Program, ran: set[ast.AST], node: ast.stmt) -> bool:
    """Whether `node` calls a setter (`dataset.set_mode("train")`) only ever with the same."""
    told = _told(node)
    if not told or not _SETTING.search(told[0]):
        return False
    others = (_told(at) for _, at in program.nodes() if at in ran)
    return all(at == told for at in others if at and at[0] == told[0])


def _told(node: ast.AST) -> tuple[str, str] | None:
    """The method that `node` calls, and what it tells it: no variable; None where it does not."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method), args=args, keywords=named)):
            given = [*args, *(each.value for each in named)]
            names = set[str]().union(*map(names_in, given))
            if given and all(name[:1].isupper() for name in names):
                return method, ", ".join(map(ast.unparse, given))
    return None


def _constant_set(node: ast.AST) -> str:
    """The code of what `node` sets to a constant; "" where it does not."""
    match node:
        case ast.Assign(targets=[target], value=ast.Constant()):
            return ast.unparse(target)
    return ""


def _made_with(program: Program, at: Building, name: str) -> set[ast.AST]:
    """Where the function that makes the loader, and trains nothing, has made `name` itself."""
    function = at.call.script.function(at.call.node)
    if function is None:
        return set()
    body = set(ast.walk(function))
    inner, outer = loops_of_training(program)
    own = {each for each in body if isinstance(each, ast.Name) and each.id == name}
    is_made = any(isinstance(each.ctx, ast.Store) for each in own)
    return set(own) if is_made and body.isdisjoint([*inner, *outer]) else set()


def _changers(program: Program) -> frozenset[str]:
    """The methods of the program's classes that set attributes of their own, or in these."""
    return frozenset(
        method.name
        for method in program.methods()
        if not method.name.startswith("__")
        if any(
            isinstance(changed, ast.Name) and changed.id == "self"
            for node in ast.walk(method)
            if isinstance(node, ast.Assign | ast.AugAssign)
            for changed in _set(node)
        )
    )


def _readers(program: Program) -> frozenset[str]:
    """The methods of the program's classes of which none can change anything."""
    changing = {method.name for method in program.methods() if _may_change(method)}
    return frozenset(method.name for method in program.methods()) - changing


def _may_change(method: Function) -> bool:
    for node in ast.walk(method):
        if any(not isinstance(each, ast.Name) for each in assigned(node)):
            return True
        if any(written_into(node)) or isinstance(node, ast.Global | ast.Nonlocal | ast.Yield):
            return True
        if isinstance(node, ast.Call) and last_name(node.func) not in _READING:
            given = set[str]().union(*map(names_in, (*given_to(node), node.func)))
            if given & {"self", "super"}:
                return True
    return False


def _changed(node: ast.stmt, changers: Collection[str], readers: Collection[str]) -> list[ast.expr]:
    """What `node` calls a method of, no reader's, or a changer's, and sets attributes of."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=changed, attr=method)) as call):
            inside = [at.value for at in written_into(call) if isinstance(at, ast.Attribute)]
            return [] if method in readers else [changed, *inside]
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


def _is_dataset(script: Script, changed: ast.expr, name: str, builder: Function | None) -> bool:
    """Whether `changed` is the dataset of that `name`, which `builder` gives its loader."""
    if isinstance(changed, ast.Attribute) and changed.attr == _DATASET:
        return not is_held_out(changed)
    if not name or last_name(changed) != name or _is_of_a_tensor(changed):
        return False
    if not isinstance(changed, ast.Name):
        return True
    loops = (at for at in script.ancestors(changed) if isinstance(at, ast.For))
    drawn = set[str]().union(*(names_in(at.target) for at in loops))
    function = script.function(changed)
    is_batch = function is not None and function.name == "forward" and name in parameters(function)
    is_another = function is not builder and (is_batch or _is_another(script, changed))
    return name not in drawn and not is_another


def is_held_out(data: ast.expr) -> bool:
    """Whether `data` is a dataset on which models are only tried, by its or its loader's name."""
    holder = data.value if isinstance(data, ast.Attribute) and data.attr == _DATASET else data
    name = (last_name(holder) or ast.unparse(holder)).lower()
    is_whole = holder is data or "loader" in name or name.endswith("dl")
    return is_whole and bool(HELD_OUT.search(name))


def _is_another(script: Script, changed: ast.Name) -> bool:
    """Whether the function has an own variable of that name, given nothing named as a dataset."""
    function = script.function(changed)
    values = values_given(function or script.tree, changed.id)
    given = (leaf for each in values for leaf in ast.walk(each) if isinstance(leaf, ast.expr))
    names = {last_name(leaf).lower() for leaf in given}
    known = changed.id.lower() in names or any(map(_OF_DATA.fullmatch, names))
    return bool(function and values) and not known


def _is_of_a_tensor(changed: ast.expr) -> bool:
    """Whether it is `weight.data`, and no dataset of that name."""
    return (
        isinstance(changed, ast.Attribute)
        and changed.attr == "data"
        and not (isinstance(changed.value, ast.Name) and changed.value.id == "self")
    )
