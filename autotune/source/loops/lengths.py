"""Where a program reckons with how many batches its loader has: smaller ones are more of them."""

import ast
import re
from collections.abc import Iterator

from autotune.source.calls.writes import given_values
from autotune.source.loops.counters import SAYING
from autotune.source.loops.iteration import WRAPPERS
from autotune.source.loops.loop import TrainingLoop
from autotune.source.loops.other_loaders import names_of
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import called_as, calls_in, functions_named, is_bound
from autotune.source.script import Function, Script, last_name, names_in, stored_names

# What the names of other things than loaders begin and end in.
_DATA = ("set", "sets", "data", "sampler", "df", "idx", "ids", "indices", "files", "texts", "dict")
_EVALUATING = ("val", "test", "eval", "pretrain", "x_", "y_")
_TEXTS = ("format", "repr", "str")
# Words in the names of loaders; "train" alone may be one, "train_rows" is none.
_LOADING = re.compile(
    r"(^|_)load(er|ing)?s?$|loader|batches|(?<![cw]r)iter(s|ators?)?$|(^|_)dls?$|^train(ing)?$"
)


def counts_batches(program: Program, loop: TrainingLoop, call: Call) -> str:
    """Where, outside `loop`, the program reckons with `len()` of its loader; no mean, no text."""
    inside = set(ast.walk(loop.node))
    known = {ast.unparse(loop.loader), last_name(loop.loader), *names_of(call)} - {""}
    dataset = _dataset_of(call)
    for script, length in program.calls():
        taken = last_name(length.func) == "len" and bool(length.args) and length not in inside
        if not taken or _is_in_mean(program, script, length) or _is_said(program, script, length):
            continue
        whole = length.args[0]
        if _is_of_data(whole, dataset, known) or _is_a_part(script, whole, known):
            continue
        if _may_be_the_loader(whole, known):
            return script.at(length)
    return ""


def _dataset_of(call: Call) -> str:
    """The code of the dataset that a loader is built on, "" where that is not a variable."""
    given = [*call.node.args[:1], *(at.value for at in call.node.keywords if at.arg == "dataset")]
    return next((ast.unparse(at) for at in given if isinstance(at, ast.Name | ast.Attribute)), "")


def _is_of_data(value: ast.expr, dataset: str, known: set[str]) -> bool:
    """Whether `value` is the `dataset`, or of a sample of it, and no loader of the same name."""
    whole = value
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    return ast.unparse(whole) == dataset and (whole is not value or dataset not in known)


def _is_a_part(script: Script, value: ast.expr, known: set[str]) -> bool:
    """Whether `value` is a variable that is only given parts of something (`table[:2500]`)."""
    if not isinstance(value, ast.Name) or value.id in known:
        return False
    within = ast.walk(script.function(value) or script.tree)
    pairs = (pair for at in within for pair in given_values(at))
    given = [each for target, each in pairs if value.id in stored_names(target)]
    parts = (isinstance(at, ast.Subscript) and isinstance(at.slice, ast.Slice) for at in given)
    return bool(given) and all(parts)


def _may_be_the_loader(value: ast.expr, known: set[str]) -> bool:
    """Whether `value` has one of the `known` names, or one that a loader may have elsewhere."""
    if ast.unparse(value) in known or last_name(value) in known:
        return True
    names = [name.lower() for name in _telling(value)]
    if any(name.endswith(_DATA) or name.startswith(_EVALUATING) for name in names):
        return False
    return any(_LOADING.search(name) for name in names)


def _telling(value: ast.expr) -> list[str]:
    """The names that tell what `value` is: of `loaders["train"]` both, of a call the function's."""
    match value:
        case ast.Subscript(value=whole, slice=ast.Constant(value=str(key))):
            return [key, *_telling(whole)]
        case ast.Subscript(value=whole, slice=place) if not isinstance(place, ast.Slice):
            return _telling(whole)
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[whole]):
            return _telling(whole)
        case ast.Call(func=function):
            return [last_name(function)]
    return [last_name(value)]


def _is_said(program: Program, script: Script, value: ast.expr, further: int = 2) -> bool:
    """Whether `value` becomes part of a text or a bar alone, in functions that are given it too."""
    if _only_says(script, value):
        return True
    above = next(iter(script.ancestors(value)))
    match above:
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.FloorDiv(), right=ast.Constant()):
            return _is_said(program, script, above, further)
    call = next(iter(script.ancestors(above))) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call) or call.func is value:
        return False
    taken = list(_taken_by(program, call, value)) if further else []
    return last_name(call.func) in _TEXTS or (
        bool(taken)
        and all(
            name != ""
            and all(
                _is_said(program, each, at, further - 1)
                for at in ast.walk(inside)
                if isinstance(at, ast.Name) and at.id == name
            )
            for each, inside, name in taken
        )
    )


def _taken_by(
    program: Program, call: ast.Call, value: ast.expr
) -> Iterator[tuple[Script, Function, str]]:
    """The functions that `call` may be of, with the parameter that takes `value`, "" if unknown."""
    for script, function in program.functions():
        if called_as(script, function) == last_name(call.func):
            yield script, function, _parameter(script, function, call, value)


def _parameter(script: Script, function: Function, call: ast.Call, value: ast.expr) -> str:
    if value not in call.args:
        return next((str(at.arg) for at in call.keywords if at.value is value and at.arg), "")
    bound = is_bound(script, function)
    owner = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    by_class = bound and owner[:1].isupper() and function.name != "__init__"
    if by_class or any(isinstance(at, ast.Starred) for at in call.args):
        return ""
    placed = [at.arg for at in (*function.args.posonlyargs, *function.args.args)]
    return next(iter(placed[call.args.index(value) + bound :]), "")


def _only_says(script: Script, length: ast.expr) -> bool:
    """Whether `length` is part of a text, or given as it is to what prints or draws a bar."""
    above = next(iter(script.ancestors(length)))
    if isinstance(above, ast.keyword):
        above = next(iter(script.ancestors(above)))
    said = isinstance(above, ast.Call) and last_name(above.func) in (*SAYING, *WRAPPERS)
    return said or isinstance(above, ast.FormattedValue)


def _is_in_mean(program: Program, script: Script, length: ast.expr) -> bool:
    """Whether `length`, by itself or under a name, divides a sum."""
    match next(iter(script.ancestors(length))):
        case ast.BinOp(op=ast.Div(), left=total, right=divisor):
            pass
        case ast.AugAssign(op=ast.Div(), target=total, value=divisor):
            pass
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = script.function(length) or script.tree
            read = (at for at in ast.walk(scope) if isinstance(at, ast.Name) and at.id == name)
            uses = [at for at in read if isinstance(at.ctx, ast.Load)]
            return all(_only_says(script, at) or _is_in_mean(program, script, at) for at in uses)
        case _:
            return False
    called = {last_name(call.func) for call in calls_in(total)}
    adding = (function for name in called for _, function in functions_named(program, name))
    summed = "sum" in called or any(any(_added(function)) for function in adding)
    sums = set[str]().union(*map(_names, _added(script.tree)))
    return divisor is length and (summed or bool(_names(total) & sums))


def _added(within: ast.AST) -> Iterator[ast.expr]:
    """What is added to there: sums."""
    for at in ast.walk(within):
        if isinstance(at, ast.AugAssign) and isinstance(at.op, ast.Add):
            yield at.target


def _names(value: ast.AST) -> set[str]:
    """The variables and attributes in `value`, but for `self`."""
    read = {at.attr for at in ast.walk(value) if isinstance(at, ast.Attribute)}
    return (names_in(value) | read) - {"self"}
