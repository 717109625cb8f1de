"""`autotune search`: the whole flow, from the profile to the faster program."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import (
    Arguments,
    Budget,
    Device,
    Json,
    Module,
    OutFlag,
    Quiet,
    Seed,
    Target,
    default_folder,
    default_folders,
    out_folder,
    unseen_by_git,
)
from autotune.errors import MeasurementError

if TYPE_CHECKING:
    from autotune import flow
    from autotune.cli.progress import Progress
    from autotune.result import Result

Trials = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Trials at most; each starts the program anew and trains for some seconds, never a"
        " whole run.",
        show_default=False,
    ),
]
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
        metavar="URL",
        help="An Optuna storage; searches on any machines share a database's, each with its own DIR"
        " (by default the next that is free: train, train-2). Default: a journal in DIR.",
        show_default=False,
    ),
]
Sampler = Annotated[
    str, typer.Option(metavar="NAME", help="Who proposes trials: profile, tpe, gp or random.")
]
Patience = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="How long 1 % of expected gain may take. Default: a twentieth of the budget.",
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Nothing that needs more memory at its peak, its workers' included, or of which that "
        "is unknown: 8G.",
        show_default=False,
    ),
]
Energy = Annotated[
    bool,
    typer.Option(
        "--energy",
        help="Set energy per sample against speed too, where the GPU reports it. What is handed"
        " back is the fastest all the same.",
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Begin anew, even where the same search was done already.")
]


def search(
    target: Target,
    arguments: Arguments = None,
    module: Module = False,  # noqa: ARG001 - a dotted name is taken for one in any case
    out: OutFlag = None,
    budget: Budget = "5m",
    trials: Trials = None,
    device: Device = None,
    seed: Seed = 0,
    allow: Allow = "equivalent",
    knob: Knobs = None,
    storage: Storage = None,
    sampler: Sampler = "profile",
    patience: Patience = None,
    memory_limit: MemoryLimit = None,
    energy: Energy = False,
    fresh: Fresh = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find faster settings, prove them, and write them down."""
    from autotune import flow
    from autotune.knobs.config import parse_knob_options

    options = flow.Options.said(
        budget=budget,
        trials=trials,
        out=out_folder(out, target),
        device=device,
        seed=seed,
        allow=allow,
        knobs=parse_knob_options(knob or ()),
        storage=storage,
        sampler=sampler,
        patience=patience,
        memory_limit=memory_limit,
        energy=energy,
        fresh=fresh,
    )
    _search(target, arguments or (), options, named=out is not None, as_json=as_json, quiet=quiet)


def _search(
    target: str,
    arguments: Sequence[str],
    options: "flow.Options",
    *,
    named: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from autotune.cli.progress import Progress, console_for, print_document
    from autotune.cli.search_screen import show_search
    from autotune.outputs import NotWrittenError

    console = console_for(as_json)
    shown = Progress(console, budget_seconds=options.budget_seconds, quiet=quiet)
    failed = None
    try:
        with unseen_by_git(), shown as progress:
            first = default_folder(target)
            if not named and options.out != first:
                progress.note(
                    f"{first} has the results of another program. Those of this one go into"
                    f" {options.out}."
                )
            beside = options.storage is not None and not named
            result, folder = _found(target, arguments, options, progress, beside=beside)
    except NotWrittenError as error:
        result, folder, failed = error.result, None, error
    if as_json:
        print_document(result)
    else:
        show_search(console, result, folder, brief=quiet)
    if failed is not None:
        raise failed
    if result.verdict is not None and result.verdict.outcome == "failed":
        raise typer.Exit(MeasurementError.exit_code)


def _found(
    target: str,
    arguments: Sequence[str],
    options: "flow.Options",
    progress: "Progress",
    *,
    beside: bool,
) -> "tuple[Result, Path | None]":
    """The result, and the folder that it was written into: where others may share the study, the
    first default one `beside` theirs that is free.
    """
    from autotune import flow
    from autotune.outputs.room import TakenError

    folders = (each for each in default_folders(target) if each != options.out)
    while True:
        try:
            found = flow.search(target, arguments, listener=progress, options=options)
            return found, options.out
        except TakenError as error:
            if not beside:
                raise
            options = replace(options, out=next(folders))
            progress.note(f"{error.message} This search writes into {options.out}.")
