"""`autotune explain`: the page of one knob."""

from typing import Annotated

import typer

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[KNOB]", help="A knob; all of them in a line each without.", show_default=False
    ),
]


def explain(name: Name = None) -> None:
    """Show the page of one knob, or name them all."""
    from autotune.cli.console import Console
    from autotune.knobs import KNOBS, by_name
    from autotune.knobs.knob import Semantics
    from autotune.knobs.page import page_of

    console = Console()
    if name is None:
        console.rows([[(knob.name, "accent"), page_of(knob).summary] for knob in KNOBS], indent=0)
        return
    knob = by_name(name)
    page = page_of(knob)
    console.say([(page.name, "strong"), f"  {page.summary}"])
    for heading, text in page.sections.items():
        console.heading(heading)
        console.say(text, indent=2)
    console.gap()
    tried = "with --allow different" if knob.semantics is Semantics.DIFFERENT else "by default"
    console.say(
        (
            f"Its change is {knob.semantics}: tried {tried}, not with --knob {knob.name}=off.",
            "quiet",
        )
    )
