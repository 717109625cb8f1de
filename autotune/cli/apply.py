"""`autotune apply`: tuned.patch, written into the source."""

from typing import Annotated

import typer

from autotune.cli.options import Out, result_file

Reverse = Annotated[bool, typer.Option("--reverse", "-R", help="Take it out of the source again.")]


def apply(out: Out, reverse: Reverse = False) -> None:
    """Write tuned.patch into the source, or take it out again."""
    from autotune.cli.console import Console
    from autotune.cli.typed import shown_path, typed
    from autotune.outputs.apply import apply_patch

    out = result_file(out).parent
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
        console.command(typed("apply", shown_path(out), "--reverse"))
