"""What took the least energy, where that was set against speed: as a trial, and in words."""

from autotune.measurement.measurement import Measurement
from autotune.outputs import wording
from autotune.result import Result
from autotune.trials.front import least_energy
from autotune.trials.trial import Trial
from autotune.verdict import Verdict


def least(result: Result) -> Trial | None:
    """The trial of least energy a sample that is at least as fast as the program as it is; of what
    this search was to choose among, and without what was found to be another training.
    """
    search, space, verdict = result.search, result.space, result.verdict
    if search is None or not search.energy or space is None or verdict is None:
        return None
    limit = search.memory_limit_bytes

    def admits(trial: Trial) -> bool:
        peak = getattr(trial.outcome, "peak_bytes", None)
        fits = limit is None or (not trial.config if peak is None else peak <= limit)
        return fits and space.admits(trial.config) and _is_same_training(trial, verdict)

    return least_energy(result.trials, admits)


def least_in_words(result: Result) -> str:
    """Which trial that is, its energy and its speed; "" where it was not asked for."""
    if result.search is None or not result.search.energy:
        return ""
    trial = least(result)
    if trial is None:
        return "not known of any trial that may be chosen and was as fast as the program as it is"
    assert isinstance(trial.outcome, Measurement)
    joules = wording.energy(trial.outcome.joules_per_sample)
    if not trial.config:
        return (
            f"the program as it is ({joules}): of the trials that may be chosen none that is as "
            "fast took less"
        )
    own = next(each.outcome for each in result.trials if not each.config)
    before = getattr(own, "joules_per_sample", None)
    handed_back = result.verdict is not None and trial.config == result.verdict.config
    return (
        f"{'what is handed back, ' if handed_back else ''}trial {trial.number}"
        f" ({wording.settings(trial.config)}): {joules} at"
        f" {wording.rate(trial.outcome.samples_per_second)}"
        f"{f', where the program as it is takes {wording.energy(before)}' if before else ''}"
        "; the least of what is no slower, by one short run each"
    )


def _is_same_training(trial: Trial, verdict: Verdict) -> bool:
    """Whether the training with its settings was not found to be another one."""
    if verdict.is_withheld or verdict.passed_over:
        return not trial.config or bool(verdict.suspect and verdict.suspect not in trial.config)
    return True
