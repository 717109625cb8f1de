"""`result.json`, the public format (schema 1): a Result as a document, and back."""

import json
import re
from pathlib import Path
from typing import Any, get_args

from autotune.diagnosis import Finding
from autotune.errors import UsageError
from autotune.knobs.knob import Config
from autotune.machine import Machine
from autotune.measurement.measurement import Failure, Measurement
from autotune.outputs.plain import Mismatch, build, plain
from autotune.outputs.writing import write_whole
from autotune.profiling.profile import Profile
from autotune.result import SCHEMA, Cost, Result, SearchFacts, TargetFacts
from autotune.source.edits import Edit, EditOutcome
from autotune.trials.space import Space
from autotune.trials.trial import Trial
from autotune.verdict import Verdict

_MEASURE_AGAIN = "Run `autotune profile` or `autotune search` again to write it anew."

MEASURED = "measured"  # the status of a trial that did not fail

_EDITS = {edit.__name__: edit for edit in get_args(Edit)}
_REQUIRED = ("target", "diagnosis", "space", "verdict", "cost")
_PARTS: dict[str, Any] = {
    "target": TargetFacts,
    "diagnosis": tuple[Finding, ...],
    "space": Space | None,
    "verdict": Verdict | None,
    "cost": Cost | None,
    "search": SearchFacts | None,
    "patch": str,
    "protection": str,
    "command": tuple[str, ...],
    "started_at": str,
    "seed": int,
}
# A list of scalars as json.dumps indents it, one a line: unreadable where it is a list of losses.
_SCALARS = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s*\]")


def to_document(result: Result) -> dict[str, Any]:
    """`result` as plain JSON data in schema 1; figures that are not finite are null."""
    profile = plain(result.profile)
    document = {
        "schema": SCHEMA,
        "machine": profile.pop("machine"),
        "profile": {**profile, "overhead": profile["overhead_share"]},
        "trials": [_trial_document(trial) for trial in result.trials],
        "edits": [_edit_document(outcome) for outcome in result.edits],
    }
    document.update({name: plain(getattr(result, name)) for name in _PARTS})
    return document


def from_document(document: object) -> Result:
    """The Result that `document` says.

    Raises:
        UsageError: it is not a document of schema 1; the message names the first wrong place.
    """
    if not isinstance(document, dict) or "schema" not in document:
        raise UsageError("This is not a result of autotune: it has no schema.", _MEASURE_AGAIN)
    if document["schema"] != SCHEMA:
        raise UsageError(
            f"This result has schema {document['schema']!r}; this autotune reads schema {SCHEMA}.",
            "Use the version of autotune that wrote it, or measure again.",
        )
    try:
        return _result(document)
    except Mismatch as error:
        raise UsageError(f"The result is damaged: {error}.", _MEASURE_AGAIN) from error


def write_document(result: Result, path: Path) -> None:
    """Write `result` to the file at `path`, whole or not at all."""
    text = json.dumps(to_document(result), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(path, _SCALARS.sub(_on_one_line, text) + "\n")


def read_document(path: Path) -> Result:
    """The Result in the file at `path`.

    Raises:
        UsageError: there is no such file, or it holds no result of schema 1.
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise UsageError(f"{path} is {what}.", "Name the folder that a search wrote to.")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"{path} does not exist.",
            "Run `autotune search` first, or name the folder it wrote to.",
        ) from None
    except NotADirectoryError:
        named = "Name the folder that a search wrote to: `autotune-out/...`."
        raise UsageError(f"{path.parent} is a file.", named) from None
    except OSError as error:
        named = "Name the folder that a search wrote to."
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", named) from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}.", _MEASURE_AGAIN) from error
    try:
        return from_document(document)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.advice) from error


def _result(document: dict[str, Any]) -> Result:
    machine = _part(document, "machine", Machine)
    profile = _part(document, "profile", dict) | {"machine": plain(machine)}
    parts = {
        name: _part(document, name, expected)
        for name, expected in _PARTS.items()
        if name in document or name in _REQUIRED
    }
    return Result(
        profile=build(Profile, profile, "profile"),
        trials=tuple(
            _trial(trial, f"trials[{index}]")
            for index, trial in enumerate(_part(document, "trials", list))
        ),
        edits=tuple(
            _edit_outcome(outcome, f"edits[{index}]")
            for index, outcome in enumerate(_part(document, "edits", list))
        ),
        **parts,
    )


def _trial_document(trial: Trial) -> dict[str, Any]:
    document = {"number": trial.number, "config": plain(trial.config), "seconds": trial.seconds}
    if isinstance(trial.outcome, Failure):
        return document | {
            "status": trial.outcome.kind,
            "samples_per_second": None,
            "interval": None,
            "reason": trial.outcome.reason,
            "output": trial.outcome.output,
        }
    return document | {"status": MEASURED, "reason": "", **plain(trial.outcome)}


def _trial(document: Any, place: str) -> Trial:
    data = build(dict, document, place)
    status = _part(data, "status", str, place)
    outcome: Failure | Measurement
    if status == MEASURED:
        outcome = build(Measurement, data, place)
    else:
        outcome = build(Failure, data | {"kind": status}, place)
    return Trial(
        number=_part(data, "number", int, place),
        config=_part(data, "config", Config, place),
        seconds=_part(data, "seconds", float, place),
        outcome=outcome,
    )


def _edit_document(outcome: EditOutcome) -> dict[str, Any]:
    edit = {"type": type(outcome.edit).__name__, **plain(outcome.edit)}
    return {**plain(outcome), "edit": edit}


def _edit_outcome(document: Any, place: str) -> EditOutcome:
    data = build(dict, document, place)
    edit = _part(data, "edit", dict, place)
    kind = _EDITS.get(_part(edit, "type", str, f"{place}.edit"))
    if kind is None:
        raise Mismatch(f"{place}.edit.type is {edit['type']!r}, which is no edit")
    return EditOutcome(
        edit=build(kind, edit, f"{place}.edit"),
        **{
            name: _part(data, name, str, place)
            for name in ("knob", "status", "reason", "hand_step")
        },
    )


def _part(data: dict[str, Any], name: str, expected: Any, place: str = "") -> Any:
    where = f"{place}.{name}" if place else name
    if name not in data:
        raise Mismatch(f"{where} is missing")
    return build(expected, data[name], where)


def _on_one_line(scalars: re.Match[str]) -> str:
    return "[" + re.sub(r",\n\s+", ", ", scalars[1]) + "]"
