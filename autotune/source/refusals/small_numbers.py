"""Numbers that a program has written down and that are denormal themselves."""

import ast

from autotune.source.program import Program
from autotune.source.script import Script, last_name

_SMALLEST_NORMAL, _OF_FLOAT64 = 2.0**-126, 2.0**-1022
_OF_ARRAYS = frozenset(("numpy", "math", "scipy"))


def denormal_constant(program: Program) -> str:
    """Where the program has one, to keep a logarithm or a quotient finite, say: file and line, ""
    where it has none. Taken for zero, it would keep nothing finite.
    """
    scripts = program.scripts.values()
    wide = any(_is_wide(call) for script in scripts for call in script.calls)
    places = (
        script.at(at)
        for script in scripts
        for at in script.nodes
        if isinstance(at, ast.Constant) and isinstance(at.value, float)
        if 0.0 < at.value < (_OF_FLOAT64 if wide or _is_of_arrays(script, at) else _SMALLEST_NORMAL)
    )
    return next(places, "")


def _is_wide(call: ast.Call) -> bool:
    """Whether it has all of torch compute in float64."""
    given = map(last_name, call.args)
    return last_name(call.func) == "set_default_dtype" and "float64" in given


def _is_of_arrays(script: Script, constant: ast.Constant) -> bool:
    """Whether a function of NumPy's, of Python's or SciPy's is given it, in float64."""
    call = next((at for at in script.ancestors(constant) if isinstance(at, ast.Call)), None)
    name = script.qualified(call.func) if call else ""
    return name.partition(".")[0] in _OF_ARRAYS
