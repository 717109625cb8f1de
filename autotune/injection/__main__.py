"""Runs a recipe's training program in the recipe's own place, as it was measured.

    python -m autotune.injection RECIPE [--text FILE] [ARGS...]

The program has the recipe's path and imports what lies beside it; its text is that of FILE, or
written anew.
"""

import os
import sys
from pathlib import Path

from autotune.workload.program.script import Program, run_script
from autotune.workload.program.target import load_target, read_source


def _main() -> None:
    recipe, *arguments = sys.argv[1:]
    if arguments[:1] == ["--text"]:
        text, arguments = read_source(Path(arguments[1])), arguments[2:]
    else:
        text = load_target(recipe).program_source
    del sys.path[0]  # the working directory, which `-m` put there
    run_script(
        Program(
            path=recipe,
            arguments=tuple(arguments),
            directory=os.getcwd(),
            sources={recipe: text},
        )
    )


_main()
