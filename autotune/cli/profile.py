"""`autotune profile`: where a program's time goes, and what could be gained."""

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
    out_folder,
    unseen_by_git,
)


def profile(
    target: Target,
    arguments: Arguments = None,
    module: Module = False,  # noqa: ARG001 - a dotted name is taken for one in any case
    out: OutFlag = None,
    budget: Budget = "5m",
    device: Device = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say where each step's time goes, and what could be gained."""
    from autotune import flow
    from autotune.cli.profile_screen import show_profile
    from autotune.cli.progress import Progress, console_for, print_document
    from autotune.durations import parse_duration
    from autotune.outputs.others import profile_folder

    folder = profile_folder(out_folder(out, target))
    console = console_for(as_json)
    options = flow.Options(
        budget_seconds=parse_duration(budget), out=folder, device=device, seed=seed
    )
    with unseen_by_git(), Progress(console, quiet=quiet) as progress:
        result = flow.profile(target, arguments or (), listener=progress, options=options)
    if as_json:
        print_document(result)
    else:
        show_profile(console, result, folder, brief=quiet)
