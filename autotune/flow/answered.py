"""A search that was done already, on the same program, data, machine and versions: its answer
stands.
"""

from dataclasses import replace
from datetime import UTC, datetime

from autotune.errors import UsageError
from autotune.flow.context import Context
from autotune.flow.sameness import program_key, search_key
from autotune.measurement.processes.process import RunEnded
from autotune.outputs.document import read_document
from autotune.result import Result
from autotune.trials.trial import FINAL, PASSING
from autotune.workload.program.target import OBJECTS
from autotune.workload.seen import Seen

STEPS = 2  # that show a program's data


def kept_answer(context: Context) -> Result | None:
    """The result of the same search in the output folder, None where there is none.

    Only one that ended by itself, with no smaller budget, and with an answer. The program is
    started to see its data, and stopped again after two steps.
    """
    kept = None if context.options.fresh else _kept(context)
    if kept is None or kept.search is None:
        return None
    context.listener.stage("looking whether the program's data is that of the search kept here")
    context.bench.passed_loops = kept.profile.seen.passed_loops
    with context.device.held():
        seen = _seen(context)
    context.bench.passed_loops = 0
    if seen is None or kept.search.key != search_key(context, seen):
        return None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(kept, search=replace(kept.search, answered_at=now))


def _seen(context: Context) -> Seen | None:
    """What the program is seen to be made of; None where it fails, which its profile will say."""
    try:
        run = context.bench.observe()
    except RunEnded:
        return None
    try:
        run.window(0.0, steps=STEPS)
        return run.seen()
    except RunEnded:
        return None
    finally:
        run.kill()


def _kept(context: Context) -> Result | None:
    """A kept result that may be of the same search, as far as can be told without running it."""
    options = context.options
    if options.out is None or context.target.kind == OBJECTS:
        return None
    try:
        kept = read_document(options.out / "result.json")
    except UsageError:  # there is none, or one of another version
        return None
    search, verdict = kept.search, kept.verdict
    if search is None or search.ending is None or verdict is None:
        return None
    is_settled = verdict.outcome != "failed" and not verdict.is_open
    disturbed = any(getattr(trial.outcome, "kind", "") in PASSING for trial in kept.trials)
    is_final = search.ending.why in FINAL and is_settled and not disturbed
    needed = ["tuned.toml"] * (verdict.outcome == "faster") + ["tuned.patch"] * bool(kept.patch)
    is_whole = all((options.out / name).exists() for name in needed)
    enough = kept.profile.budget_seconds >= options.budget_seconds
    same = search.key.startswith(f"{program_key(context)}-")
    return kept if is_final and is_whole and enough and same else None
