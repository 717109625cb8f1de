"""What to do after a search, as a sentence and a command to be typed."""

from pathlib import Path

from autotune.cli.console import Console
from autotune.cli.typed import retyped, shown_path, typed
from autotune.measurement.measurement import Failure
from autotune.outputs import wording
from autotune.result import Result
from autotune.trials.trial import BUDGET
from autotune.verdict import Verdict
from autotune.workload.program.target import RECIPE

# A budget that cut the trials off after fewer than these may have cut off a gain.
_FEW_TRIALS = 5
_USED_UP = 0.75  # of a budget: what ends with more of it left ended by itself
_VAGUE = 3.0  # an interval that spans more says nothing with its upper end
_TIMES_MORE = 3  # the budget to try next: an interval narrows with the square root of it


def show_next(console: Console, result: Result, verdict: Verdict, folder: Path) -> None:
    """What is likeliest to be wanted after this `verdict`, with its command."""
    command = ""
    if verdict.outcome == "faster":
        what = "write the settings into the source (--reverse takes them out again)"
        if result.target.kind == RECIPE:
            what = "put the tuned program beside the recipe (--reverse removes it)"
        if result.patch and result.target.path:
            command = typed("apply", shown_path(folder))
    elif verdict.outcome == "failed":
        what, command = _for_an_answer(result, verdict)
    elif verdict.is_withheld and verdict.suspect:
        allowed = " (or have it all the same: --allow different)" * verdict.may_be_allowed
        what = f"search on without {verdict.suspect}{allowed}"
        command = retyped(result.command, off=verdict.suspect)
    elif verdict.may_be_allowed:
        what = "look at both losses in the report; to have it all the same, allow it"
        command = retyped(result.command, allow="different")
    elif open_question := _open_question(result, verdict):
        what, command = _once_more(result, verdict, open_question)
    steps = [(what, command)] if command else []
    if verdict.outcome == "faster" and result.target.path and not _is_whole(result):
        run = "train with all the settings, the source untouched", typed("run", shown_path(folder))
        steps.insert(0 if _may_gain_nothing(verdict) else 1, run)
    for each, typed_in in steps:
        console.gap()
        console.say(f"Next: {each}")
        console.command(typed_in)


def _may_gain_nothing(verdict: Verdict) -> bool:
    """Whether the gain of the patch alone may be chance."""
    own = verdict.delivered.speedup if verdict.delivered else None
    return own is not None and own.low <= 1


def _for_an_answer(result: Result, verdict: Verdict) -> tuple[str, str]:
    """What may bring one, and its command; "" where neither time nor quiet does."""
    goes_on = "; the search goes on where it stopped"
    if verdict.too_short:
        return "", ""
    if 0 < verdict.left_out < sum(verdict.rounds):
        budget = _more_time(result.profile.budget_seconds) if _used_its_time(result) else ""
        return f"give it more time{goes_on}", retyped(result.command, budget=budget)
    if _was_busy(result, verdict):
        return f"try again when the machine is quieter{goes_on}", retyped(result.command)
    return "", ""


def _once_more(result: Result, verdict: Verdict, open_question: str) -> tuple[str, str]:
    """What may answer the `open_question`, and its command."""
    if result.profile.ends_too_soon:
        what = f"let it train longer, with more epochs or more data: {open_question}"
        return what, retyped(result.command)
    quieter = " on a quieter machine" if _was_busy(result, verdict) else ""
    budget = _more_time(result.profile.budget_seconds) if _used_its_time(result) else ""
    how = "give it more time" if budget else "time it again"
    what = f"{how}{quieter}, {open_question}; the trials so far are kept"
    return what, retyped(result.command, budget=budget)


def _is_whole(result: Result) -> bool:
    """Whether the patch has every setting."""
    return bool(result.patch) and all(edit.status != "refused" for edit in result.edits)


def _was_busy(result: Result, verdict: Verdict) -> bool:
    kinds = (trial.outcome.kind for trial in result.trials if isinstance(trial.outcome, Failure))
    return verdict.left_out > 0 or "busy" in kinds


def _open_question(result: Result, verdict: Verdict) -> str:
    """Why more time might still find a gain; "" where the answer stands."""
    if verdict.speedup is not None:
        known = not verdict.speedup.spans(_VAGUE)
        most = (
            f" of up to {wording.ratio(verdict.speedup.high)} by what was judged" if known else ""
        )
        return f"a gain{most} is not excluded" if verdict.is_open else ""
    tried = sum(bool(trial.config) for trial in result.trials)
    others = result.space.size - 1 if result.space else 0
    ending = result.search.ending if result.search else None
    cut_off = ending is not None and ending.why == BUDGET
    if not cut_off or not tried < min(others, _FEW_TRIALS):
        return ""
    return f"only {tried} of {wording.counted(others, 'other configuration')} could be tried"


def _used_its_time(result: Result) -> bool:
    """Whether it was the budget that ended the measuring, and not that no more turns are taken."""
    cost = result.cost
    if cost is None:
        return True
    return cost.seconds - cost.earlier_seconds > _USED_UP * result.profile.budget_seconds


def _more_time(budget_seconds: float) -> str:
    seconds = round(_TIMES_MORE * budget_seconds)
    return f"{seconds}s" if seconds % 60 else f"{seconds // 60}m"
