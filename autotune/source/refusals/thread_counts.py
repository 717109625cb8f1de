"""Where a program depends on the number of its threads: it computes with that, or forks processes
that compute with one.
"""

import ast
import os

from autotune.source.program import Program
from autotune.source.script import Script, last_name

_ASKS = ("get_num_threads", "get_num_interop_threads")
_SAY_HOW = ("get_context", "set_start_method")
_FORKS = ("fork", "forkpty", "Process", "Pool", "ProcessPoolExecutor")
# What may be given it without being trained by: it is printed, logged, or written to a file.
_HARMLESS = frozenset(
    (
        *("print", "debug", "info", "warning", "log", "dump", "dumps", "safe_dump", "write"),
        *("set_num_threads", "set_num_interop_threads"),
    )
)


def counted_by_threads(program: Program) -> str:
    """Where torch is asked for the number of its threads, other than to tell it or to set it again:
    file and line, "" where it is not.
    """
    for script in program.scripts.values():
        if any(name in script.text for name in _ASKS):
            harmless = only_told(script)
            for call in script.calls:
                called = script.qualified(call.func).rpartition(".")[2]
                if called in _ASKS and call not in harmless:
                    return f"{os.path.basename(script.path)}:{call.lineno}"
    return ""


def forked_with_one(program: Program) -> str:
    """Where a program that sets one thread itself forks processes: file and line, "" where it does
    not.

    More threads wait in a forked process for ever: those of OpenMP stay behind in the first one.
    """
    scripts = list(program.scripts.values())
    calls = [(script, call) for script in scripts for call in script.calls]
    if not any(_sets_one(call) for _, call in calls) or any(_spawns(call) for _, call in calls):
        return ""
    forks = (each for each in calls if last_name(each[1].func) in _FORKS)
    return next((f"{os.path.basename(at.path)}:{call.lineno}" for at, call in forks), "")


def _sets_one(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=func, args=[ast.Constant(value=1)]):
            return last_name(func) == "set_num_threads"
    return False


def _spawns(call: ast.Call) -> bool:
    """Whether it says that processes begin anew."""
    given = [at.value for at in call.args if isinstance(at, ast.Constant)]
    return last_name(call.func) in _SAY_HOW and given in (["spawn"], ["forkserver"])


def only_told(script: Script) -> set[ast.AST]:
    """What is inside a text or a call that tells it, or sets how many threads there are, and what
    is kept for those alone.
    """
    told: list[ast.AST] = [call for call in script.calls if _tells(call)]
    told += [at for at in script.nodes if isinstance(at, ast.JoinedStr)]
    found = {part for at in told for part in ast.walk(at)}
    names = [at for at in script.nodes if isinstance(at, ast.Name)]
    loaded = [at for at in names if isinstance(at.ctx, ast.Load)]
    used = {at.id for at in loaded if at not in found}
    is_told = {at.id for at in loaded} - used
    for at in script.nodes:
        match at:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in used:
                found.update(ast.walk(value) if name in is_told else [value])
    return found


def _tells(call: ast.Call) -> bool:
    return last_name(call.func) in _HARMLESS
