"""Where a program goes by how much memory its process has: it has more where it keeps what it
frees.
"""

import ast

from autotune.source.program import Program
from autotune.source.refusals.thread_counts import only_told
from autotune.source.script import last_name

# Of psutil and the standard library.
_ASKS = frozenset(
    ("memory_info", "memory_full_info", "memory_percent", "virtual_memory", "getrusage")
)
_PROFILER = "memory_profiler.memory_usage"  # a table's `memory_usage()` is of the table alone
# Files of the kernel's, and lines in them.
_TELLS = ("/statm", "/smaps", "smaps_rollup", "/proc/self/status", "/proc/meminfo", "VmRSS")


def memory_asked(program: Program) -> str:
    """Where the program asks how much memory there is or its process has, other than to tell it:
    file and line, "" where it does not.
    """
    for script in program.scripts.values():
        told = only_told(script)
        for node in script.nodes:
            match node:
                case ast.Call(func=function):
                    asks = last_name(function) in _ASKS or script.qualified(function) == _PROFILER
                    asks = asks and node not in told
                case ast.Constant(value=str(text)):
                    asks = len(text) < 100 and any(each in text for each in _TELLS)
                case _:
                    continue
            if asks:
                return script.at(node)
    return ""
