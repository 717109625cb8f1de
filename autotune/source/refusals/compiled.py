"""Where a compiled model would do something else than the program says, without a word: what is
compiled neither calls hooks that are registered later, nor knows what `functools.cache` has kept.
"""

import ast
from collections.abc import Iterator

from autotune.source.loops.around_training import loops_of_training, running
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.script import Function, last_name

_HOOKS = frozenset(
    f"register_{name}_hook" for name in ("forward", "forward_pre", "full_backward", "backward")
)
_CACHES = frozenset({"cache", "lru_cache", "cached_property"})
_DRAWS = frozenset(
    (
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli"),
        *("multinomial", "normal", "uniform", "choice", "permutation", "shuffle", "sample"),
        *("random", "integers"),
    )
)


def why_not_compiled(program: Program) -> str:
    """Which of these it is, and where; "" where none is seen."""
    if at := next(_hooked_later(program), ""):
        return f"hooks are registered at {at} while it trains, which a compiled model passes over"
    if at := next(_kept_by_chance(program), ""):
        return (
            f"the function at {at} keeps what it has drawn by chance, and a compiled model draws "
            "it anew in each call"
        )
    return ""


def _hooked_later(program: Program) -> Iterator[str]:
    """Calls that register hooks on modules in what the loops of the training run."""
    inner, outer = loops_of_training(program)
    loops: list[ast.AST] = [
        loop for loop in (*inner, *outer) if isinstance(loop, ast.For | ast.While)
    ]
    ran = running(program, loops) if loops else set[ast.AST]()
    for script in program.scripts.values():
        for call in script.calls:
            if last_name(call.func) in _HOOKS and call in ran:
                yield f"{script.path}:{call.lineno}"


def _kept_by_chance(program: Program) -> Iterator[str]:
    """Functions with a cache that draw random numbers."""
    for script in program.scripts.values():
        for function in script.nodes:
            if not isinstance(function, Function):
                continue
            decorators = (
                at.func if isinstance(at, ast.Call) else at for at in function.decorator_list
            )
            cached = any(last_name(each) in _CACHES for each in decorators)
            if cached and any(last_name(call.func) in _DRAWS for call in calls_in(function)):
                yield f"{script.path}:{function.lineno}"
