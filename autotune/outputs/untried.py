"""What a search says of what it did not try, and of what it tried and left as it was."""

from collections.abc import Sequence

from autotune.diagnosis import Bottleneck
from autotune.measurement.measurement import Failure, Measurement
from autotune.outputs import wording
from autotune.profiling.profile import TOO_FEW_STEPS
from autotune.result import Result
from autotune.trials.space import NUM_WORKERS
from autotune.trials.trial import BUDGET, PASSING, TRIALS, Trial

MORE_TIME = "a larger budget has more"  # as reasons say for which there was too little


def untried(result: Result) -> tuple[str, ...]:
    """The knobs that were to be searched, and of which no trial came to an end."""
    choices = result.space.choices if result.space else {}
    tried = {name for trial in _tried(result) for name in trial.config}
    return tuple(name for name in choices if name not in tried)


def no_gain(result: Result) -> str:
    """The answer of a search that found nothing, which is no more than it has tried."""
    if not _tried(result):
        return "Nothing was tried"
    if _takes_too_much(result):
        return "Nothing found to gain within the memory limit"
    if untried(result) or _is_cut_short(result):
        return "Nothing found to gain in what was tried"
    is_open = result.verdict is not None and result.verdict.is_open
    return "Nothing found to gain" if is_open else "Nothing to gain"


def left_untried(result: Result) -> str:
    """What was not tried, in a sentence; "" where all of it was, or nothing."""
    names = untried(result)
    if not _tried(result):
        return ""
    if not names:
        return barely_timed(result)
    return " ".join(filter(None, (_said_untried(result, names), barely_timed(result))))


def barely_timed(result: Result) -> str:
    """The knobs that were to be searched and whose every trial was of too few steps to tell, in a
    sentence; "" without any. What took turns was timed in more: the best of them.
    """
    tried, verdict = _tried(result), result.verdict
    told = {name for trial in tried if not _is_short(trial) for name in trial.config}
    if verdict is not None and verdict.turns and tried:
        told |= (verdict.config or max(tried, key=_speed).config).keys()
    steps = {
        name: sum(_steps(trial) for trial in tried if name in trial.config)
        for name in (result.space.choices if result.space else {})
        if name not in told and name not in untried(result)
    }
    few = [f"{name} ({wording.counted(number, 'step')})" for name, number in steps.items()]
    return f"Timed in too few steps to tell: {', '.join(few)}." if few else ""


def _is_short(trial: Trial) -> bool:
    """Whether so few of its steps were timed that they tell nothing; how one failed tells much."""
    outcome = trial.outcome
    return isinstance(outcome, Measurement) and any(
        doubt.name == TOO_FEW_STEPS for doubt in outcome.doubts
    )


def _steps(trial: Trial) -> int:
    outcome = trial.outcome
    if not isinstance(outcome, Measurement):
        return 0
    return sum(window.steps for window in outcome.windows)


def loading_stays(result: Result) -> str:
    """Why the loader is left as it is, though waiting for it was told first, without the subject;
    "" where it is not, workers were neither slower in trials nor left out, or nothing was gained.
    """
    verdict, first = result.verdict, next(iter(result.diagnosis), None)
    if verdict is None or verdict.outcome != "faster" or NUM_WORKERS in verdict.config:
        return ""
    if first is None or first.bottleneck != Bottleneck.DATA:
        return ""
    space = result.space
    left_out = {each.knob: each.reason for each in space.skipped} if space else {}
    if space and NUM_WORKERS in left_out and NUM_WORKERS not in space.choices:
        return f"as it is: {left_out[NUM_WORKERS].rstrip('.')}"
    measured = [each for each in result.trials if isinstance(each.outcome, Measurement)]
    workers = [each for each in measured if NUM_WORKERS in each.config]
    fastest, others = (
        max(each, key=_speed, default=None)
        for each in (workers, [each for each in measured if each not in workers])
    )
    if fastest is None or others is None or _speed(fastest) >= _speed(others):
        return ""
    rates = " against ".join(wording.rate(_speed(each)) for each in (fastest, others))
    if space and space.own.get(NUM_WORKERS):
        return f"as it is: with other numbers of workers the best trial came out slower ({rates})"
    return f"as it is: with workers the best trial came out slower ({rates} without)"


def _speed(trial: Trial) -> float:
    """Samples per second that were measured in `trial`."""
    return trial.outcome.samples_per_second if isinstance(trial.outcome, Measurement) else 0.0


def ended(result: Result) -> str:
    """Why no more was tried, and what was not, where the answer itself does not tell that; "" where
    nothing was searched.
    """
    ending = result.search.ending if result.search else None
    if ending is None:
        return ""
    verdict = result.verdict
    judged = verdict is not None and (verdict.outcome == "faster" or verdict.is_undecided)
    names = [name for name in untried(result) if f"{name} was not tried" not in ending.reason]
    if not judged:
        return ending.reason
    left = _said_untried(result, names)
    return " ".join(filter(None, (ending.reason, left, barely_timed(result))))


def _said_untried(result: Result, names: Sequence[str]) -> str:
    """Which knobs were not tried, and of which each trial was spoilt by what else was going on."""
    begun = {name for trial in result.trials for name in trial.config}
    spoilt = [name for name in names if name in begun]
    left = [name for name in names if name not in begun]
    said = (
        f"Not tried: {', '.join(left)}." if left else "",
        f"Tried, but not measured: {', '.join(spoilt)}." if spoilt else "",
    )
    return " ".join(filter(None, said))


def _is_cut_short(result: Result) -> bool:
    """Whether more might have been tried, by what ended the search, or by what was left out since
    it could not be looked at in time.
    """
    ending = result.search.ending if result.search else None
    skipped = result.space.skipped if result.space else ()
    late = any(MORE_TIME in each.reason for each in skipped)
    return late or (ending is not None and ending.why in (BUDGET, TRIALS))


def _takes_too_much(result: Result) -> bool:
    """Whether any trial needed more memory than it might."""
    limit = result.search.memory_limit_bytes if result.search else None
    outcomes = [each.outcome for each in result.trials if isinstance(each.outcome, Measurement)]
    return limit is not None and any((each.peak_bytes or 0) > limit for each in outcomes)


def _tried(result: Result) -> list[Trial]:
    return [
        trial
        for trial in result.trials
        if trial.config
        and not (isinstance(trial.outcome, Failure) and trial.outcome.kind in PASSING)
    ]
