"""What a program keeps of what its models give: puts into lists, joins, hands to NumPy."""

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from autotune.source.loops.loss import GATHERING
from autotune.source.script import Script, last_name, stored_names

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
# Those whose outcome has its elements in the same order in memory, and `view`, which asks for it.
_REORDERING = {"contiguous", "expand", "flatten", "permute", "reshape", "transpose"}
SAME_ORDER = SAME_FORMAT - _REORDERING | {"float"}
_UNMERGED = 3  # dimensions of a view that may keep the channels apart
_KEEPING = frozenset({
    *GATHERING, "cat", "concat", "concatenate", "hstack", "numpy", "stack", "vstack",
})
# fmt: on


def kept_outcome(
    script: Script, calls: Iterable[ast.Call], same: Collection[str]
) -> ast.expr | None:
    """The first place that keeps what one of `calls` gives, or what the `same` make of it."""
    for value, above in _followed(script, calls, same):
        if any(map(_keeps, above)) or _is_put_into(above):
            return value
    return None


def merged_outcome(script: Script, calls: Iterable[ast.Call]) -> ast.expr | None:
    """The first `.view(-1)` or `.view(n, -1)` in `script` of what one of `calls` gives."""
    for _, above in _followed(script, calls, SAME_ORDER):
        for node in above:
            if isinstance(node, ast.Call) and is_merged(node):
                return node
    return None


def is_merged(call: ast.Call) -> bool:
    """Whether it is `.view(-1)` or `.view(n, -1)`."""
    match call:
        case ast.Call(func=ast.Attribute(attr="view"), args=[*first, last]):
            return len(first) < _UNMERGED - 1 and ast.unparse(last) == "-1"
    return False


def _followed(
    script: Script, calls: Iterable[ast.Call], same: Collection[str]
) -> Iterator[tuple[ast.expr, list[ast.AST]]]:
    """Where `script` has what one of `calls` gives, each with what is above it."""
    waiting: list[ast.expr] = list(calls)
    known = set(waiting)
    while waiting:
        value = waiting.pop(0)
        above = _above(script, value, same)
        yield value, above
        more = [at for at in _goes_on(script, value, above) if at not in known]
        waiting += more
        known.update(more)


def _goes_on(script: Script, value: ast.expr, above: Sequence[ast.AST]) -> list[ast.expr]:
    """Where else `script` has `value`, a part of `above`: by a name, or as what is returned."""
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
            return [at for at in script.calls if last_name(at.func) == function.name]
    return []


def _is_put_into(above: Sequence[ast.AST]) -> bool:
    """Whether the last statement puts the value into a dict, by a key that may be another."""
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
