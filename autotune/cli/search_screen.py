"""A search in words: the verdict, what was changed, what is left to do by hand, proof, cost."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from autotune.cli.console import Console, Line, Piece
from autotune.cli.next_step import show_next
from autotune.cli.profile_screen import machine_line, show_cautions, show_files
from autotune.cli.thriftier import show_thriftier
from autotune.cli.typed import shown_path
from autotune.diagnosis.finding import ends
from autotune.errors import UsageError
from autotune.outputs import EARLIER, wording
from autotune.outputs.apply import is_applied
from autotune.outputs.chosen import chosen
from autotune.outputs.compared import same_training
from autotune.outputs.energy import least_in_words
from autotune.outputs.rounded import rounded
from autotune.outputs.speeds import (
    counted_by_shape,
    earned_back,
    in_turns,
    longer_start,
    patch_alone,
    timed,
)
from autotune.outputs.untried import ended, left_untried, loading_stays, no_gain
from autotune.result import Result
from autotune.source.edits import EditOutcome
from autotune.verdict import BASELINE, DELIVERED, TUNED, Parity, Ratio, Verdict

_FILES = ("result.json", "report.html", "tuned.toml", "tuned.patch")
_IN_THE_PATCH = {"done": "in the patch", "already": "there already", "refused": "not in the patch"}


def show_search(
    console: Console, result: Result, folder: Path | None, *, brief: bool = False
) -> None:
    """The whole screen of `autotune search`; only its first sentences where `brief`. `folder` is
    where the answer was written, None where it could not be.
    """
    verdict = result.verdict
    assert verdict is not None, "a search has a verdict"
    if not brief:
        console.gap()
    if since := _kept_since(result):
        console.say(since)
        console.gap()
    console.say(banner(result, verdict))
    if brief:
        return
    if lacking := patch_alone(result):
        console.say(lacking)
    if verdict.outcome == "faster":
        _show_speeds(console, verdict, patched=bool(result.patch))
        _show_settings(console, result, verdict)
    elif verdict.outcome == "no_gain" and result.diagnosis:
        show_cautions(console, result.profile)
        console.say(wording.finding(result.profile, result.diagnosis[0].headline))
    _show_hand_steps(console, result.edits)
    _show_proof(console, result, verdict)
    if folder is None:
        return
    show_files(console, folder, (*_FILES, f"{result.target.name}_tuned.py"))
    if verdict.outcome != "faster" and (folder / EARLIER / "tuned.toml").exists():
        _show_earlier(console, folder / EARLIER)
    show_next(console, result, verdict, folder)
    show_thriftier(console, result, folder)


def _show_earlier(console: Console, folder: Path) -> None:
    said, applied = "A faster program of an earlier search is kept in", False
    with suppress(UsageError):  # it is damaged
        applied = is_applied(folder)
    if applied:
        said = "The patch of an earlier search is applied; what that search wrote is kept in"
    console.say(f"{said} {shown_path(folder)}/")


def banner(result: Result, verdict: Verdict) -> Line:
    """The answer in one sentence."""
    if verdict.outcome == "failed":
        return [("No answer. ", "bad"), verdict.reason]
    if verdict.is_undecided:
        return [("Undecided. ", "warn"), verdict.reason]
    if verdict.is_withheld:
        return [(f"{wording.withheld(verdict)}. ", "warn"), verdict.reason]
    if verdict.outcome != "faster" or verdict.speedup is None:
        left = left_untried(result)
        return [(f"{no_gain(result)}. ", "strong"), " ".join(filter(None, (verdict.reason, left)))]
    speedup = verdict.speedup
    found = wording.faster(speedup.estimate)
    line: list[Piece] = [
        (wording.at_least(speedup.low) if verdict.is_rough else found, "banner"),
        f" ({f'{found} as timed; ' if verdict.is_rough else ''}{_interval(speedup)})",
    ]
    if result.profile.changes_later:
        line.append((" in the steps that came; later ones may be others", "warn"))
    parity = verdict.parity
    same = parity.same_training if parity else None
    if parity and parity.is_another:
        line.append((", but another training, as was allowed", "warn"))
    elif same:
        line.append((f", {same_training(verdict)}", "banner"))
    elif same is False:
        line.append((", but not the same training", "bad"))
    else:
        line.append((", but whether it is the same training could not be told", "warn"))
    return line


def _kept_since(result: Result) -> str:
    """That nothing was searched, and how old the answer is; "" where it was."""
    search = result.search
    if search is None or not search.answered_at:
        return ""
    age = datetime.fromisoformat(search.answered_at) - datetime.fromisoformat(result.started_at)
    return (
        f"Searched {wording.duration(age.total_seconds())} ago ({wording.moment(result.started_at)}"
        "), and no change was seen since in the program, its configuration files, the number and "
        "shape of its samples, the machine or the installed versions: the answer stands. --fresh "
        "searches again."
    )


def _show_speeds(console: Console, verdict: Verdict, *, patched: bool) -> None:
    said = {
        BASELINE: ("before", "quiet"),
        TUNED: ("tuned", "good"),
        DELIVERED: ("handed back", "good") if patched else ("patch tried", "quiet"),
    }
    speeds = in_turns(verdict)
    most = max(speeds.values(), default=0.0)
    if most:
        console.gap()
        console.bars(
            [
                (label, speed / most, tone, wording.rate(speed))
                for name, speed in speeds.items()
                for label, tone in [said[name]]
            ]
        )


def _show_settings(console: Console, result: Result, verdict: Verdict) -> None:
    own = result.space.own if result.space else {}
    rows: list[list[Line]] = []
    for name, setting in verdict.config.items():
        before = wording.value(own[name]) if name in own else ""
        statuses = {edit.status for edit in result.edits if edit.knob == name}
        worst = next((each for each in ("refused", "done", "already") if each in statuses), "")
        tone = "warn" if worst == "refused" else "quiet"
        gone = [edit.reason for edit in result.edits if (edit.knob, edit.status) == (name, "done")]
        rows.append(
            [
                name,
                [(before, "quiet"), (" → " if before else "", "quiet"), wording.value(setting)],
                ("; ".join(filter(None, (_IN_THE_PATCH.get(worst, ""), *gone))), tone),
            ]
        )
    console.heading("Settings")
    console.rows(rows)


def _show_hand_steps(console: Console, edits: tuple[EditOutcome, ...]) -> None:
    refused = [edit for edit in edits if edit.status == "refused"]
    if not refused:
        return
    console.heading("Not in the patch")
    rows: list[list[Line]] = []
    for edit in refused:
        why: list[Piece] = [(edit.reason, "quiet")]
        if edit.hand_step:
            why += ["\n", ("by hand: ", "quiet"), edit.hand_step]
        rows.append([edit.knob, why])
    console.rows(rows)


def _show_proof(console: Console, result: Result, verdict: Verdict) -> None:
    facts = {
        "Training": _training(result, verdict, verdict.parity) if verdict.parity else "",
        _handed_back(result, verdict): _delivered(verdict),
        "Run further": verdict.through,
        "Loading": f"stays {stays}" if (stays := loading_stays(result)) else "",
        "Validation": wording.with_validations(verdict),
        "Passed over": verdict.passed_over,
        "Least energy": least_in_words(result),
        "Timed": timed(verdict, result.profile),
        "Samples": counted_by_shape(result.profile),
        "Not counted": wording.outside(result.profile, verdict),
        "Chosen": chosen(result),
        "Ended": ended(result),
        "Cost": _cost(result),
        "Machine": machine_line(result.profile.machine),
        "Your files": result.protection,
    }
    console.gap()
    console.rows([[(name, "quiet"), text] for name, text in facts.items() if text], indent=0)


def _handed_back(result: Result, verdict: Verdict) -> str:
    """What is said of the patch under."""
    if result.patch:
        return "Handed back"
    timed_so = verdict.delivered is not None and verdict.delivered.speedup is not None
    return "Patch tried" if timed_so else "No patch"


def _training(result: Result, verdict: Verdict, parity: Parity) -> str:
    if not parity.same_training or parity.max_relative_loss_difference is None:
        return parity.reason or "there were too few steps to compare the losses"
    band = f", where {wording.allowed(parity)}" if parity.band else ""
    return (
        f"the same{wording.as_far(parity)}: over {wording.counted(parity.steps, 'step')} the "
        f"smoothed losses differ by {wording.percent(parity.max_relative_loss_difference)} at most"
        f"{band}"
        f"{wording.skipped(parity)}{wording.reordered(result.profile, verdict)}"
        f"{f'. {said}' if (said := rounded(result)) else ''}"
    )


def _delivered(verdict: Verdict) -> str:
    delivered = verdict.delivered
    if delivered is None or (verdict.outcome == "failed" and not delivered.reason):
        return ""
    if delivered.speedup is None or verdict.outcome == "failed":
        return delivered.reason or "the patched program was not timed"
    said = "the patched program itself was timed" if verdict.outcome == "faster" else ""
    if delivered.speedup != verdict.speedup:
        said = "the patched program itself was timed: "
        said += f"{_as_timed(delivered.speedup)} ({_interval(delivered.speedup)})"
    return "; ".join(filter(None, (said, delivered.reason)))


def _as_timed(speedup: Ratio) -> str:
    """Nothing is called faster that may be slower."""
    if speedup.low <= 1 <= speedup.high:
        return f"{wording.ratio(speedup.estimate)} the speed, which may be chance"
    return wording.faster(speedup.estimate)


def _cost(result: Result) -> str:
    cost = result.cost
    if cost is None:
        return ""
    said = f"{wording.duration(cost.seconds)} for {wording.counted(cost.trials, 'trial')}"
    if cost.earlier_trials:
        earlier = wording.duration(cost.earlier_seconds)
        said += f", {cost.earlier_trials} of them made before, in {earlier} of that"
    if cost.break_even_steps is None:
        return said
    return f"{said}; {earned_back(result)} earn it back{longer_start(result)}"


def _interval(value: Ratio) -> str:
    return f"{wording.percent(value.confidence)} interval {ends(value.low, value.high)}"
