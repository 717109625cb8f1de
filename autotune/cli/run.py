"""`autotune run`: the program for real, with the settings that a search found."""

import os
import sys
from typing import Annotated

import typer

from autotune.cli.options import Arguments, Searched, result_file
from autotune.errors import UsageError

With = Annotated[
    str,
    typer.Option(
        "--with",
        metavar="COMMAND",
        help="What starts the program in Python's place: 'torchrun --nproc-per-node 2'.",
        show_default=False,
    ),
]

Trial = Annotated[
    int | None,
    typer.Option(
        "--trial",
        metavar="N",
        help="With the settings of a trial in the report instead, though whether they train the"
        " same was not looked at.",
        show_default=False,
    ),
]


def run(
    out: Searched, arguments: Arguments = None, launcher: With = "", trial: Trial = None
) -> None:
    """Run the program with the settings found, its source untouched.

    Without ARGS it gets those that it was searched with.
    """
    from autotune.cli.console import Console
    from autotune.launch import prepare

    launch = prepare(result_file(out).parent, arguments or (), launcher=launcher, trial=trial)
    console = Console(sys.stderr)
    if launch.warning:
        console.say([("autotune: ", "quiet"), (launch.warning, "warn")])
    console.say([("autotune: ", "quiet"), launch.summary])
    sys.stderr.flush()
    try:
        # The program takes this process's place: terminal, signals and exit code are its own.
        os.execvpe(launch.command[0], launch.command, launch.environment)  # noqa: S606
    except OSError as error:
        raise UsageError(
            f"{launch.command[0]} cannot be started: {error.strerror}",
            "--with takes a command line: --with 'torchrun --nproc-per-node 2'",
        ) from None
