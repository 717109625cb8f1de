"""How a program that was searched is started for real, with the settings found for it."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.errors import UsageError
from autotune.injection.order import Order, environment
from autotune.knobs.config import read_settings
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.outputs import wording
from autotune.outputs.apply import PATCH, changed_since, is_applied, line_after, partly_in
from autotune.outputs.document import read_document
from autotune.result import Result
from autotune.workload.program.script import import_root
from autotune.workload.program.target import OBJECTS, RECIPE, Target, load_target

CHANGED = "{} has changed since it was searched: search again for settings that are its own"
_SEARCH_AGAIN = "`autotune search` finds settings for the program as it is now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start, in which environment, and what to know of it.

    Attributes:
        command: the program to execute, and its arguments.
        environment: the whole of it.
        summary: what runs, in one line.
        warning: what may not be as it was when the settings were found; "" where nothing is.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    summary: str
    warning: str = ""


def prepare(
    out: Path, arguments: Sequence[str] = (), *, launcher: str = "", trial: int | None = None
) -> Launch:
    """How to start the program that was searched into the folder `out`.

    What its source has already is not put in a second time.

    Args:
        out: the folder; settings that were changed by hand in its `tuned.toml` are taken.
        arguments: of the program; those that it was searched with where there are none.
        launcher: what starts it in Python's place ("torchrun --nproc-per-node 2").
        trial: the number of the trial whose settings are taken, in place of those found.

    Raises:
        UsageError: there is no result in `out`, its settings cannot be read, there is no such
            trial, or its program is not there.
    """
    result = read_document(out / "result.json")
    target = _target(result, arguments)
    applied = target.kind != RECIPE and is_applied(out)
    if trial is None:
        settings = _settings(out, result)
    else:
        settings = _of_trial(out, result, trial, applied=applied)
    if settings and not applied and target.kind != RECIPE:
        _refuse_what_is_partly_in(out)
    text = _tuned_program(out, result, settings) if target.kind == RECIPE else None
    written = bool(text) or applied
    injected = _not_written(result, settings) if written else settings
    environ = dict(os.environ)
    if target.module:
        path = [import_root(target.path, target.module), *filter(None, [environ.get("PYTHONPATH")])]
        environ["PYTHONPATH"] = os.pathsep.join(path)
    if injected:
        environ = environment(_order(out, result, injected, applied=applied), environ)
    changed = changed_since(result.target)
    return Launch(
        command=_command(target, text, launcher),
        environment=environ,
        summary=f"{Path(target.path).name} {_how(result, settings, trial)}",
        warning=_warning(changed, target, text)
        if settings and changed and (text or not written)
        else _away(target),
    )


def _target(result: Result, arguments: Sequence[str]) -> Target:
    facts = result.target
    if facts.kind == OBJECTS:
        raise UsageError(
            "this result is of Python objects, not of a program",
            'Trainer.from_config("tuned.toml", ...) trains a model with its settings',
        )
    if not Path(facts.path).is_file():
        raise UsageError(f"{facts.path} is not there", _SEARCH_AGAIN)
    target = load_target(facts.path, arguments or facts.arguments)
    return target if target.kind == RECIPE else replace(target, module=facts.module)


def _settings(out: Path, result: Result) -> Config:
    """What is to be different: what stands in `tuned.toml`, or else what the search found."""
    if (out / "tuned.toml").is_file():
        return read_settings(out / "tuned.toml")
    verdict = result.verdict
    return verdict.config if verdict is not None and verdict.outcome == "faster" else {}


def _of_trial(out: Path, result: Result, number: int, *, applied: bool) -> Config:
    tried = {trial.number: trial for trial in result.trials}
    if number not in tried:
        raise UsageError(f"the search in {out} has no trial {number}", "the report lists them all")
    trial = tried[number]
    if isinstance(trial.outcome, Failure):
        raise UsageError(f"trial {number} failed: {trial.outcome.reason}", "name another one")
    if applied:
        raise UsageError(
            "the source has the patch, whose settings would stay beside the trial's",
            f"`autotune apply {out} --reverse` takes it out",
        )
    return trial.config


def _refuse_what_is_partly_in(out: Path) -> None:
    file = partly_in(out)
    if file is not None:
        raise UsageError(
            f"{file.name} has lines of {out / PATCH}, but not all is as that leaves it: with the"
            " settings put in as well, they would be there twice",
            f"without `autotune run` it has what is in its source; {_SEARCH_AGAIN}",
        )


def _order(out: Path, result: Result, settings: Config, *, applied: bool) -> Order:
    seen = result.profile.seen
    loader = seen.training_loader()
    if loader and applied:
        loader = replace(loader, line=line_after(out, loader.path, loader.line))
    return Order(settings=settings, loader=loader, passed_loops=seen.passed_loops)


def _tuned_program(out: Path, result: Result, settings: Config) -> Path | None:
    """The program that was written for a recipe, where it is the one with these settings."""
    text = out / f"{result.target.name}_tuned.py"
    asked = result.verdict.config if result.verdict is not None else {}
    return text if settings and settings == asked and text.is_file() else None


def _not_written(result: Result, settings: Config) -> Config:
    """Those of `settings` that a source with the patch does not have."""
    asked = result.verdict.config if result.verdict is not None else {}
    refused = {edit.knob for edit in result.edits if edit.status == "refused"}
    return {
        name: value
        for name, value in settings.items()
        if name in refused or asked.get(name) != value
    }


def _command(target: Target, text: Path | None, launcher: str) -> tuple[str, ...]:
    try:
        start = shlex.split(launcher) or [sys.executable]
    except ValueError as error:
        raise UsageError(f"--with {launcher} cannot be taken apart: {error}") from None
    if target.kind == RECIPE:
        own = ["--text", str(text)] if text else []
        return (*start, "-m", "autotune.injection", target.path, *own, *target.arguments)
    if target.module:
        return (*start, "-m", target.module, *target.arguments)
    return (*start, target.path, *target.arguments)


def _how(result: Result, settings: Config, trial: int | None) -> str:
    if trial is not None:
        return f"as in trial {trial}: {wording.settings(settings)}"
    if settings:
        return f"with {wording.settings(settings)}"
    if result.verdict is None:
        return "as it is: no settings have been searched yet"
    if result.verdict.outcome == "failed":
        return "as it is: its search came to no answer"
    if result.verdict.is_undecided:
        return "as it is: its search could not tell whether anything is faster"
    return "as it is: nothing was found to gain"


def _away(target: Target) -> str:
    """That it runs elsewhere than it lies; "" where it does not, or is a module."""
    folder, here = Path(target.path).resolve().parent, Path.cwd()
    if target.module or folder.is_relative_to(here) or here.is_relative_to(folder):
        return ""
    return (
        f"{Path(target.path).name} lies in {folder}, and is run here: its paths are looked for here"
    )


def _warning(changed: Path, target: Target, text: Path | None) -> str:
    name = changed.name
    if text and changed == Path(target.path):
        return f"{name} has changed since it was searched; what runs is {text}, as it was then"
    return CHANGED.format(name)
