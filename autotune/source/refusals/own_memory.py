"""Where a program goes by the memory of its process, which is more where freed memory is kept."""

import ast
from collections.abc import Iterator

from autotune.source.program import Program
from autotune.source.refusals.thread_counts import only_told
from autotune.source.script import Script, last_name

# Of psutil and the standard library.
_ASKS = frozenset(("memory_info", "memory_full_info", "memory_percent", "virtual_memory"))
_USAGE, _PEAK, _PLACE = "getrusage", "ru_maxrss", 2  # which tells of time and else, too
_PROFILER = "memory_profiler.memory_usage"  # a table's `memory_usage()` is of the table alone
# Files of the kernel's, and lines in them.
_TELLS = ("/statm", "/smaps", "smaps_rollup", "/proc/self/status", "/proc/meminfo", "VmRSS")


def memory_asked(program: Program) -> str:
    """Where the program asks how much memory there is, or it has, other than to tell it."""
    asked = list(_asked(program))
    told = only_told(program) if asked else set[ast.AST]()
    heeded = (
        script.at(node)
        for script, node in asked
        if isinstance(node, ast.Constant) or node not in told  # what a file says is read first
    )
    return next(heeded, "")


def _asked(program: Program) -> Iterator[tuple[Script, ast.expr]]:
    """What asks for it, or names where the kernel says it."""
    for script, node in program.nodes():
        match node:
            case ast.Call(func=function) if last_name(function) == _USAGE:
                yield from ((script, at) for at in _uses(script, node) if _may_ask(script, at))
                continue
            case ast.Call(func=function):
                asks = last_name(function) in _ASKS or script.qualified(function) == _PROFILER
            case ast.Attribute(attr=name):
                asks = name == _PEAK
            case ast.Constant(value=str(text)):
                asks = len(text) < 100 and any(each in text for each in _TELLS)
            case _:
                continue
        if asks:
            yield script, node


def _uses(script: Script, usage: ast.Call) -> list[ast.expr]:
    """Where the file has what `usage` gives: there, or under the name that it is given."""
    match next(script.ancestors(usage)):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            named = (at for at in script.nodes if isinstance(at, ast.Name | ast.Attribute))
            loaded = (at for at in named if isinstance(at.ctx, ast.Load))
            return [at for at in loaded if last_name(at) == last_name(target)]
    return [usage]


def _may_ask(script: Script, usage: ast.expr) -> bool:
    """Whether another part of `usage` than of time and the like is taken, but by its name."""
    match next(script.ancestors(usage)):
        case ast.Attribute(attr=name):
            return not name.startswith("ru_")
        case ast.Subscript(slice=ast.Constant(value=place)):
            return place == _PLACE
    return True
