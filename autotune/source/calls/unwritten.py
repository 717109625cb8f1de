"""Calls that give memory which nothing has been written to."""

import ast
import os

from autotune.source.program import Program
from autotune.source.script import last_name

_GIVES = frozenset(
    (
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
        *("resize_", "resize_as_", "ndarray", "new"),
    )
)
# Of torch: of sizes, where they are not given what is to lie in them.
_TENSORS = frozenset(
    f"{kind}Tensor"
    for kind in ("", "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Bool")
)


def unwritten(program: Program) -> str:
    """Where the program first takes such memory: file and line, "" where it does not."""
    for script in program.scripts.values():
        for node in script.nodes:
            if isinstance(node, ast.Call) and _is_unwritten(node):
                return f"{os.path.basename(script.path)}:{node.lineno}"
    return ""


def _is_unwritten(call: ast.Call) -> bool:
    name = last_name(call.func)
    if name not in _TENSORS:
        return name in _GIVES
    sizes = (each.value if isinstance(each, ast.Starred) else each for each in call.args)
    written = ast.List | ast.ListComp | ast.Tuple | ast.Dict
    return bool(call.args) and not any(isinstance(each, written) for each in sizes)
