"""`report.html`: the whole of a Result on one page that needs neither network nor script.

All that comes from the user's program is text to the templates, which escape every expression;
nothing in them is marked safe.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from autotune.diagnosis import Bottleneck
from autotune.diagnosis.largest import said_of_largest
from autotune.machine import CPU
from autotune.measurement.measurement import Measurement
from autotune.outputs import bounds, wording
from autotune.outputs.charts import Bar, BarChart, bar_chart, stack, trial_chart
from autotune.outputs.chosen import chosen
from autotune.outputs.compared import same_training
from autotune.outputs.curves import loss_chart
from autotune.outputs.device import device_rows
from autotune.outputs.energy import least_in_words
from autotune.outputs.rounded import rounded
from autotune.outputs.speeds import (
    counted_by_shape,
    earned_back,
    in_turns,
    longer_start,
    patch_alone,
    timed,
    turns_interval,
)
from autotune.outputs.untried import ended, left_untried, loading_stays, no_gain
from autotune.outputs.writing import write_whole
from autotune.profiling.profile import Memory
from autotune.result import Result
from autotune.source.edits import EditOutcome
from autotune.trials.front import ENERGY
from autotune.verdict import Verdict
from autotune.workload.window import PHASES

OTHER = "other"

# The phases that stand out in the picture of a step, by what holds it back.
_PHASES_OF = {
    Bottleneck.DATA: ("data",),
    Bottleneck.COPY: ("copy",),
    Bottleneck.OVERHEAD: ("forward", "backward"),
    Bottleneck.COMPUTE: ("forward", "backward"),
    Bottleneck.OPTIMIZER: ("optimizer",),
    Bottleneck.HOST: (OTHER,),
    Bottleneck.SYNC: (OTHER,),
}
# What would be reached if that bottleneck were gone.
_CEILING_OF = {Bottleneck.DATA: "compute", Bottleneck.COPY: "compute"}
_CONTESTANTS = {
    "baseline": "As it is",
    "tuned": "Tuned",
    "delivered": "Patched program",
}
_NO_FASTER = _CONTESTANTS | {"tuned": "Best found", "delivered": "Best found, as patched"}
_OUTPUT_CHARACTERS = 1500  # of a failed trial's output; all of it is in result.json
# What colours a terminal (ECMA-48, control sequences), and characters that a page cannot show.
_TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def render(result: Result) -> str:
    """`result` as one HTML page."""
    verdict = result.verdict
    parity = verdict.parity if verdict else None
    return _ENVIRONMENT.get_template("report.html").render(
        result=result,
        profile=result.profile,
        machine=result.profile.machine,
        seen=result.profile.seen,
        verdict=verdict,
        parity=parity,
        speeds=_speeds(verdict) if verdict else None,
        steps=_steps(result),
        ceilings=_ceilings(result),
        memory=_memory(result.profile.memory),
        largest_batch=said_of_largest(result.profile.memory),
        device=device_rows(result.profile.gpu) if result.profile.gpu else {},
        trials=trial_chart(result.trials) if result.trials else None,
        energies=any(getattr(each.outcome, ENERGY, None) is not None for each in result.trials),
        least_energy=least_in_words(result),
        losses=loss_chart(parity) if parity else None,
        contestants=_CONTESTANTS,
        output_characters=_OUTPUT_CHARACTERS,
    )


def write_report(result: Result, path: Path) -> None:
    """Write the page of `result` to the file at `path`.

    Raises:
        UsageError: the file cannot be written.
    """
    write_whole(path, render(result))


def _speeds(verdict: Verdict) -> BarChart:
    faster = verdict.outcome == "faster"
    return bar_chart(
        Bar(
            label=_CONTESTANTS[name] if faster else _NO_FASTER[name],
            amount=amount,
            text=wording.rate(amount),
            interval=turns_interval(verdict.turns.get(name, ())),
            marked=faster and name != "baseline",
        )
        for name, amount in in_turns(verdict).items()
    )


def _steps(result: Result) -> dict[str, object]:
    """The phases of a step in their order, the unseen ones with the reason."""
    profile, unmeasured = result.profile, bounds.unmeasured(result.profile)
    on_cpu = profile.machine.device == CPU
    marked = next(
        (_PHASES_OF[each.bottleneck] for each in result.diagnosis if each.bottleneck in _PHASES_OF),
        (),
    )
    names = [*PHASES, *(name for name in profile.phases if name not in PHASES)]
    shares = [(name, profile.phases[name]) for name in names if name in profile.phases]
    return {
        "segments": stack(shares, frozenset(marked)),
        "unseen": {
            name: unmeasured.get(name, "not seen in this run")
            for name in PHASES
            if name not in profile.phases and not (name == "copy" and on_cpu)
        },
        "unknown": {name: reason for name, reason in unmeasured.items() if name not in PHASES},
    }


def _ceilings(result: Result) -> BarChart | None:
    profile = result.profile
    ceilings = bounds.distinct(profile)
    if not ceilings:
        return None
    now = Bar(
        label="As it is",
        amount=profile.samples_per_second,
        text=wording.rate(profile.samples_per_second),
        interval=profile.interval,
    )
    marked = next((_CEILING_OF.get(each.bottleneck, "") for each in result.diagnosis), "")
    return bar_chart(
        [
            now,
            *(
                Bar(
                    label=_capital(bounds.if_free(each.name, profile.machine.device)),
                    amount=each.samples_per_second,
                    text=wording.rate(each.samples_per_second),
                    note=each.reason or wording.ceiling(each.max_gain),
                    marked=each.name == marked,
                )
                for each in ceilings
            ),
        ]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _memory(memory: Memory) -> BarChart:
    workspace = memory.workspace_bytes
    known = {
        "Parameters": memory.parameter_bytes,
        "Gradients": memory.gradient_bytes,
        "Optimizer state": memory.optimizer_bytes,
        "Activations": memory.activation_bytes,
        **({"Workspace and rest": workspace} if workspace is not None else {}),
        "Peak": memory.peak_bytes,
    }
    return bar_chart(
        Bar(
            label=label,
            amount=None if count is None else float(count),
            text=wording.size(count),
        )
        for label, count in known.items()
    )


def _readable(shown: object) -> object:
    """What a template's expression gives, as a terminal would show it; markup stays as it is."""
    return _TERMINAL_CODES.sub("", shown) if type(shown) is str else shown


def _unbroken(text: str) -> str:
    """`text` whose figures are never parted from their sign of percent at the end of a line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _edit_rows(edits: Sequence[EditOutcome]) -> list[EditOutcome]:
    """`edits` as rows of a table: a knob with several that say no more than another is told of
    once.
    """
    rows: list[EditOutcome] = []
    for each in sorted(edits, key=lambda edit: (edit.status == "already", not edit.reason)):
        made = [row for row in rows if row.knob == each.knob and row.status != "refused"]
        told = [row.reason for row in made]
        is_more = each.status == "done" and each.reason not in ("", *told)
        if each.status == "refused" or not told or is_more:
            rows.append(each)
    return sorted(rows, key=edits.index)


def _patch_kind(line: str) -> str:
    """What a line of a patch is, for its colour."""
    if line.startswith(("--- ", "+++ ", "diff ", "index ")):
        return "file"
    return {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "kept")


_FILTERS = {
    "as_far": wording.as_far,
    "at_least": wording.at_least,
    "cautions": wording.cautions,
    "chosen": chosen,
    "command": shlex.join,
    "counted": wording.counted,
    "counted_by_shape": counted_by_shape,
    "duration": wording.duration,
    "edit_rows": _edit_rows,
    "ended": ended,
    "allowed": wording.allowed,
    "finding": wording.finding,
    "further_doubts": wording.further_doubts,
    "in_turns": in_turns,
    "interval_text": wording.interval_text,
    "loading_stays": loading_stays,
    "longer_start": longer_start,
    "moment": wording.moment,
    "no_gain": no_gain,
    "outside": wording.outside,
    "patch_alone": patch_alone,
    "patch_kind": _patch_kind,
    "rate": wording.rate,
    "ratio": wording.ratio,
    "rounded": rounded,
    "same_training": same_training,
    "earned_back": earned_back,
    "settings": wording.settings,
    "share": wording.percent,
    "significant": wording.significant,
    "size": wording.size,
    "skipped": wording.skipped,
    "start": wording.start,
    "timed": timed,
    "unbroken": _unbroken,
    "value": wording.value,
    "left_untried": left_untried,
    "with_validations": wording.with_validations,
    "withheld": wording.withheld,
}


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("autotune.outputs"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    environment.tests["measured"] = lambda trial: isinstance(trial.outcome, Measurement)
    return environment


_ENVIRONMENT = _environment()
