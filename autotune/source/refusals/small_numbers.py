"""Numbers that a program has written down and that are denormal themselves."""

import ast

from autotune.source.program import Program

_SMALLEST_NORMAL = 2.0**-126  # of float32


def denormal_constant(program: Program) -> str:
    """Where the program has one, to keep a logarithm or a quotient finite, say: file and line, ""
    where it has none. Taken for zero, it would keep nothing finite.
    """
    places = (
        f"{script.path}:{at.lineno}"
        for script in program.scripts.values()
        for at in script.nodes
        if isinstance(at, ast.Constant) and isinstance(at.value, float)
        if 0.0 < at.value < _SMALLEST_NORMAL
    )
    return next(places, "")
