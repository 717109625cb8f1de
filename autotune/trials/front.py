"""Which trials are worth choosing among: none is both faster and smaller."""

from collections.abc import Sequence

from autotune.measurement.measurement import Measurement
from autotune.trials.trial import Trial


def front(trials: Sequence[Trial]) -> tuple[int, ...]:
    """Numbers of the trials that no other beats in both samples/s and peak memory, the smallest
    first.
    """
    known = sorted(
        (trial.outcome.peak_bytes, -trial.outcome.samples_per_second, trial.number)
        for trial in trials
        if isinstance(trial.outcome, Measurement) and trial.outcome.peak_bytes is not None
    )
    kept: list[int] = []
    fastest = 0.0
    for _, slowness, number in known:
        if -slowness > fastest:
            kept.append(number)
            fastest = -slowness
    return tuple(kept)
