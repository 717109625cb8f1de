"""`autotune apply`: tuned.patch, written into the source."""

from typing import Annotated

import typer

from autotune.cli.options import Out

Reverse = Annotated[bool, typer.Option("--reverse", "-R", help="Take it out of the source again.")]


def apply(out: Out, reverse: Reverse = False) -> None:
    """Write tuned.patch into the source, or take it out again."""
    from autotune.cli.console import Console
    from autotune.cli.profile_screen import shown_path
    from autotune.outputs.apply import apply_patch

    console = Console()
    applied = apply_patch(out, reverse=reverse)
    if not applied.files:
        console.say("Nothing to do: the source has these settings already.")
        return
    for file in applied.files:
        if not file.exists():
            console.say(f"Removed {shown_path(file)}")
        else:
            console.say(f"{'Restored' if reverse else 'Changed'} {shown_path(file)}")
    if not reverse:
        console.say(("To take it back:", "quiet"))
        console.command(f"autotune apply {shown_path(out)} --reverse")
