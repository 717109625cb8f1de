"""Which trials are worth choosing among, where speed is not all that counts."""

import math
import operator
from collections.abc import Callable, Sequence

from autotune.measurement.measurement import Measurement
from autotune.trials.trial import Trial

# What may be set against speed: attributes of a Measurement, of which less is better.
MEMORY, ENERGY = "peak_bytes", "joules_per_sample"


def front(trials: Sequence[Trial], costs: Sequence[str] = (MEMORY,)) -> tuple[int, ...]:
    """Numbers of the trials than which no other is as good in samples/s and each of `costs` and
    better in one, those with the least of the first cost first. What is not known is none.
    """
    known = [
        (figures, trial.number)
        for trial in trials
        if (figures := _figures(trial, costs)) is not None
    ]
    kept: list[tuple[tuple[float, ...], int]] = []
    for figures, number in sorted(known):  # what is better than another comes before it
        if not any(all(map(operator.le, others, figures)) for others, _ in kept):
            kept.append((figures, number))
    return tuple(number for _, number in kept)


def least_energy(trials: Sequence[Trial], admits: Callable[[Trial], bool]) -> Trial | None:
    """The trial that took the least energy a sample of those that `admits` lets be chosen and that
    were at least as fast as the program as it is.
    """
    own = next((trial.outcome for trial in trials if not trial.config), None)
    floor = own.samples_per_second if isinstance(own, Measurement) else math.inf
    known = [
        (outcome.joules_per_sample, trial.number, trial)
        for trial in trials
        if isinstance(outcome := trial.outcome, Measurement)
        and outcome.joules_per_sample is not None
        and outcome.samples_per_second >= floor
        and admits(trial)
    ]
    return min(known, key=lambda each: each[:2])[2] if known else None


def _figures(trial: Trial, costs: Sequence[str]) -> tuple[float, ...] | None:
    """Of which less is better, `costs` first; None where one of them is not known."""
    if not isinstance(trial.outcome, Measurement):
        return None
    known = [getattr(trial.outcome, name) for name in costs]
    return None if None in known else (*known, -trial.outcome.samples_per_second)
