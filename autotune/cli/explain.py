"""`autotune explain`: the page of one knob."""

from typing import Annotated

import typer

_TRIED = {
    "identical": "Gives the same numbers (identical): a search may try it wherever the profile "
    "leaves it something to gain.",
    "equivalent": "Gives the same training in other numbers (equivalent): a search may try it, "
    "where the profile leaves it something to gain, unless told --allow identical.",
    "different": "Gives another training (different): a search tries it only with --allow "
    "different.",
}

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
    console.say((f"{_TRIED[knob.semantics]} --knob {knob.name}=off leaves it out.", "quiet"))
