"""Where a program goes by how much memory its process has: it has more where it keeps what it
frees.
"""

import ast
from collections.abc import Iterator

from autotune.source.program import Program
from autotune.source.refusals.thread_counts import only_told
from autotune.source.script import Script, last_name

# Of psutil and the standard library.
_ASKS = frozenset(("memory_info", "memory_full_info", "memory_percent", "virtual_memory"))
_USAGE, _PEAK = "getrusage", ("ru_maxrss", 2)  # which tells of time and else, too
_PROFILER = "memory_profiler.memory_usage"  # a table's `memory_usage()` is of the table alone
# Files of the kernel's, and lines in them.
_TELLS = ("/statm", "/smaps", "smaps_rollup", "/proc/self/status", "/proc/meminfo", "VmRSS")


def memory_asked(program: Program) -> str:
    """Where the program asks how much memory there is or its process has, other than to tell it:
    file and line, "" where it does not.
    """
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
    for script in program.scripts.values():
        for node in script.nodes:
            match node:
                case ast.Call(func=function):
                    asks = last_name(function) in _ASKS or script.qualified(function) == _PROFILER
                case ast.Attribute(attr=name):
                    asks = name in _PEAK
                case ast.Subscript(value=ast.Call(func=function), slice=ast.Constant(value=at)):
                    asks = last_name(function) == _USAGE and at in _PEAK
                case ast.Constant(value=str(text)):
                    asks = len(text) < 100 and any(each in text for each in _TELLS)
                case _:
                    continue
            if asks:
                yield script, node
