"""Numbers that a program has written down and that are denormal themselves."""

import ast

from autotune.source.program import Program
from autotune.source.script import Script, last_name

# Of float32. What rounds to no number of it is zero in it with denormal ones, too.
_SMALLEST, SMALLEST_NORMAL = 2.0**-150, 2.0**-126
ZERO_IN_BFLOAT16 = 2.0**-134  # what is smaller


def denormal_constant(program: Program, below: float = SMALLEST_NORMAL) -> str:
    """Where the program has one, `below` this: taken for zero, it would keep nothing finite."""
    places = (
        script.at(at)
        for script, at in program.nodes()
        if isinstance(at, ast.Constant) and isinstance(at.value, float)
        if _SMALLEST <= at.value < below
        if not (below == ZERO_IN_BFLOAT16 and _is_added_to_float32(script, at))
    )
    return next(places, "")


def _is_added_to_float32(script: Script, number: ast.expr) -> bool:
    """Whether it is added to what is cast to float32 there: autocast leaves sums in that."""
    match next(script.ancestors(number), None):
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            other = right if left is number else left
        case _:
            return False
    match other:
        case ast.Call(func=ast.Attribute(attr="float"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[dtype]):
            return last_name(dtype) in ("float32", "float")
    return False
