"""A run that was started from Python, shown while it goes."""

import sys
from collections.abc import Callable

from autotune.cli.console import Console
from autotune.cli.profile_screen import show_cautions
from autotune.cli.progress import Progress
from autotune.cli.search_screen import banner
from autotune.listener import Listener
from autotune.result import Result

_NOTEBOOK = "ipykernel"  # what runs the cells of a notebook, loaded in every one of them


def run_shown(
    run: Callable[[Listener], Result],
    *,
    progress: bool | None,
    listener: Listener | None,
    budget_seconds: float | None = None,
) -> Result:
    """What `run` gives, told to `listener`, or else shown on stderr with its answer.

    Args:
        run: is called with who wants to know how it goes.
        progress: whether it is shown; None shows it on a terminal and in a notebook.
        listener: is told in the place of the screen.
        budget_seconds: the time for all of it; None where it is not counted down.
    """
    if progress is None:
        progress = sys.stderr.isatty() or _NOTEBOOK in sys.modules
    if listener is not None or not progress:
        return run(listener or Listener())
    console = Console(sys.stderr)
    reasons = "the result's space.skipped"
    with Progress(console, budget_seconds=budget_seconds, reasons=reasons) as shown:
        result = run(shown)
    if result.verdict is not None:
        console.say(banner(result, result.verdict))
    else:
        show_cautions(console, result.profile)
        console.say((result.diagnosis[0].headline, "strong"))
    return result
