"""Does the program change its working directory, which is each process's own, as it trains?"""

import ast

from autotune.source.loops.around_training import loops_of_training, running_within
from autotune.source.program import Program, first_of
from autotune.source.script import last_name

_CHANGES = "chdir"  # os.chdir, contextlib.chdir


def changed_directory(program: Program) -> str:
    """Where, in what the training's loops run: file and line, "" where it is not seen to."""
    calls = [
        (script, call)
        for script in program.scripts.values()
        for call in (script.calls if _CHANGES in script.text else ())
        if last_name(call.func) == _CHANGES
    ]
    if not calls:
        return ""
    inner, outer = loops_of_training(program)
    loops: list[ast.AST] = [at for at in (*inner, *outer) if isinstance(at, ast.For | ast.While)]
    ran = running_within(program, loops)
    return first_of(each for each in calls if each[1] in ran)
