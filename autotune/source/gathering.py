"""What a program keeps of what its models give: puts into lists, joins, hands to NumPy."""

import ast
from collections.abc import Collection, Iterable, Sequence

from autotune.source.loss import GATHERING, stored_names
from autotune.source.reach import calls_in
from autotune.source.script import Script, last_name

# Methods whose outcome lies in the same memory as what it is made of.
# fmt: off
SAME_MEMORY = frozenset({
    "contiguous", "detach", "expand", "flatten", "float", "permute", "reshape", "squeeze",
    "transpose", "unsqueeze", "view",
})
# Those whose outcome has the same number format.
SAME_FORMAT = SAME_MEMORY - {"float"} | {
    "clone", "cpu", "exp", "numpy", "sigmoid", "softmax", "tanh", "to",
}
_OF_MODULES = ("forward", "__call__")  # called by other names
_KEEPING = frozenset({
    *GATHERING, "cat", "concat", "concatenate", "hstack", "numpy", "stack", "vstack",
})
# fmt: on


def kept_outcome(
    script: Script, calls: Iterable[ast.Call], same: Collection[str]
) -> ast.expr | None:
    """The first place in `script` that keeps what one of `calls` gives, by itself, under a name, or
    as what a function of the file returns; what calls of other names than the `same` make of it is
    another thing.
    """
    waiting: list[ast.expr] = list(calls)
    known = set(waiting)
    while waiting:
        value = waiting.pop(0)
        above = _above(script, value, same)
        if any(map(_keeps, above)) or _is_put_into(above):
            return value
        more = [at for at in _goes_on(script, value, above) if at not in known]
        waiting += more
        known.update(more)
    return None


def _goes_on(script: Script, value: ast.expr, above: Sequence[ast.AST]) -> list[ast.expr]:
    """Where else in `script` there is what `value`, in the last statement of those `above` it, is:
    by a name in the same function, or as the outcome of a call of the function that returns it.
    """
    function = script.function(value)
    match above[-1] if above else None:
        case ast.Assign() | ast.AnnAssign() as given:
            names = stored_names(given)
            return [
                at
                for at in ast.walk(function or script.tree)
                if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Load) and at.id in names
            ]
        case ast.Return() if function is not None and function.name not in _OF_MODULES:
            return [at for at in calls_in(script.tree) if last_name(at.func) == function.name]
    return []


def _is_put_into(above: Sequence[ast.AST]) -> bool:
    """Whether the last statement of those `above` a value puts it into a dict, by a key
    that may be another the next time.
    """
    return any(
        isinstance(at, ast.Subscript) and not isinstance(at.slice, ast.Constant)
        for each in above
        if isinstance(each, ast.Assign)
        for at in each.targets
    )


def _above(script: Script, value: ast.expr, same: Collection[str]) -> list[ast.AST]:
    """What holds `value`, up to its statement or a call that makes another thing of it."""
    found: list[ast.AST] = []
    for at in script.ancestors(value):
        if isinstance(at, ast.Call) and last_name(at.func) not in (*same, *_KEEPING):
            break
        found.append(at)
        if isinstance(at, ast.stmt):
            break
    return found


def _keeps(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) in _KEEPING
    return isinstance(node, ast.List | ast.ListComp | ast.DictComp)
