"""How to have less energy than with what is handed back, where that was asked for."""

from pathlib import Path

from autotune.cli.console import Console
from autotune.cli.typed import shown_path, typed
from autotune.outputs.energy import least
from autotune.result import Result


def show_thriftier(console: Console, result: Result, folder: Path) -> None:
    """The command that trains with the least energy, where another is faster; `folder` has the
    search.
    """
    trial = least(result)
    handed_back = result.verdict.config if result.verdict else {}
    if trial is None or trial.config in ({}, handed_back) or not result.target.path:
        return
    console.gap()
    console.say(
        "Or: train with the least energy, the source untouched (whether that is the same training "
        "was not looked at)"
    )
    console.command(typed("run", shown_path(folder), "--trial", str(trial.number)))
