"""`autotune search`: the whole flow, from the profile to the faster program."""

from typing import Annotated

import typer

from autotune.cli.options import (
    Arguments,
    Budget,
    Device,
    Json,
    OutFlag,
    Quiet,
    Seed,
    Target,
    out_folder,
    unseen_by_git,
)

Trials = Annotated[int | None, typer.Option(min=1, help="Trials at most.", show_default=False)]
Allow = Annotated[
    str,
    typer.Option(
        metavar="LEVEL", help="What may change: identical, equivalent or different training."
    ),
]
Knobs = Annotated[
    list[str] | None,
    typer.Option(
        "--knob",
        metavar="NAME=VALUES",
        help="Values to try for a knob (num_workers=2,4), or NAME=off. Repeatable.",
        show_default=False,
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="An Optuna storage. Default: a journal in DIR.", show_default=False
    ),
]


def search(
    target: Target,
    arguments: Arguments = None,
    out: OutFlag = None,
    budget: Budget = "5m",
    trials: Trials = None,
    device: Device = None,
    seed: Seed = 0,
    allow: Allow = "equivalent",
    knob: Knobs = None,
    storage: Storage = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find faster settings, prove them, and write them down."""
    from autotune import flow
    from autotune.cli.progress import Progress, console_for, print_document
    from autotune.cli.search_screen import show_search
    from autotune.durations import parse_duration
    from autotune.knobs.config import parse_knob_option, parse_semantics

    folder = out_folder(out, target)
    console = console_for(as_json)
    options = flow.Options(
        budget_seconds=parse_duration(budget),
        trials=trials,
        out=folder,
        device=device,
        seed=seed,
        allow=parse_semantics(allow),
        knobs=dict(parse_knob_option(each) for each in knob or ()),
        storage=storage,
    )
    shown = Progress(console, budget_seconds=options.budget_seconds, quiet=quiet)
    with unseen_by_git(), shown as progress:
        result = flow.search(target, arguments or (), listener=progress, options=options)
    if as_json:
        print_document(result)
    else:
        show_search(console, result, folder, brief=quiet)
