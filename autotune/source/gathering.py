"""What a program keeps of what its models give: puts into lists, joins, hands to NumPy."""

import ast
from collections.abc import Collection, Iterable

from autotune.source.loss import GATHERING, stored_names
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
_KEEPING = frozenset({
    *GATHERING, "cat", "concat", "concatenate", "hstack", "numpy", "stack", "vstack",
})
# fmt: on


def kept_outcome(
    script: Script, calls: Iterable[ast.Call], same: Collection[str]
) -> ast.expr | None:
    """The first place in `script` that keeps what one of `calls` gives, by itself or under a name
    in the same function; what calls of other names than the `same` make of it is another thing.
    """
    for call in calls:
        above = _above(script, call, same)
        if any(map(_keeps, above)):
            return call
        named = stored_names(above[-1]) if above and isinstance(above[-1], ast.Assign) else set()
        function = script.function(call)
        for node in ast.walk(function or script.tree) if named else ():
            if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
                continue
            if node.id in named and any(map(_keeps, _above(script, node, same))):
                return node
    return None


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
    return isinstance(node, ast.List | ast.ListComp)
