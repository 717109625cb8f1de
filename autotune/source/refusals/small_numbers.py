"""Numbers that a program has written down and that are denormal themselves."""

import ast

from autotune.source.program import Program

# Of float32. What rounds to no number of it is zero in it with denormal ones, too.
_SMALLEST, SMALLEST_NORMAL = 2.0**-150, 2.0**-126
ZERO_IN_BFLOAT16 = 2.0**-134  # what is smaller


def denormal_constant(program: Program, below: float = SMALLEST_NORMAL) -> str:
    """Where the program has one, and `below` this, to keep a logarithm or a quotient finite, say:
    file and line, "" where it has none. Taken for zero, it would keep nothing finite.
    """
    places = (
        script.at(at)
        for script in program.scripts.values()
        for at in script.nodes
        if isinstance(at, ast.Constant) and isinstance(at.value, float)
        if _SMALLEST <= at.value < below
    )
    return next(places, "")
