"""`autotune apply`: tuned.patch, written into the source."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import Searched, result_file
from autotune.errors import UsageError

Reverse = Annotated[bool, typer.Option("--reverse", "-R", help="Take it out of the source again.")]

# What was done to a file, and what there is where nothing is to be done: of a recipe, and reversed.
_WORDS = {
    (False, False): ("Changed", "the source has these settings already"),
    (False, True): ("Restored", "the source does not have these settings"),
    (True, False): ("Written", "the tuned program is there already"),
    (True, True): ("Removed", "the tuned program is not there"),
}


def apply(out: Searched, reverse: Reverse = False) -> None:
    """Write tuned.patch into the source, or take it out again."""
    from autotune.cli.console import Console
    from autotune.cli.typed import shown_path, typed
    from autotune.outputs.apply import PATCH, apply_patch, source_root
    from autotune.outputs.document import read_document
    from autotune.workload.program.target import RECIPE

    out = result_file(out).parent
    console = Console()
    root, here = source_root(out), Path.cwd()
    if not (root.is_relative_to(here) or here.is_relative_to(root)):
        words = ("apply", str(out.resolve()), *(["--reverse"] if reverse else []))
        git = (
            f"git apply {'--reverse ' if reverse else ''}{shlex.quote(str(out.resolve() / PATCH))}"
        )
        raise UsageError(
            f"The program of this result lies in {root}, not here.",
            f"To change it there: cd {shlex.quote(str(root))} && {typed(*words, whole=True)}\n"
            f"A copy of it, in that one's folder: {git}"
            if root.is_dir()
            else "There is no such folder on this machine: it moved, or was searched on another. "
            f"Where the program is: {git}",
        )
    applied = apply_patch(out, reverse=reverse)
    is_recipe = read_document(out / "result.json").target.kind == RECIPE
    done, nothing = _WORDS[is_recipe, reverse]
    for file in applied.files:
        console.say(f"{done} {shown_path(file)}")
    if not applied.files:
        console.say(f"Nothing to do: {nothing}.")
    elif not reverse:
        console.say(("To take it back:", "quiet"))
        console.command(typed("apply", shown_path(out), "--reverse"))
