"""The best of the trials without settings that gained nothing in them: each is to be read by
someone, and may make another training later on.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from autotune.knobs.knob import Value
from autotune.measurement.measurement import Measurement
from autotune.trials.closing import Key, key_of
from autotune.trials.trial import Trial

# As many pairs of trials know a setting's gain as well as turns of two processes do.
FEWEST_PAIRS = 2


def without_gainless(
    best: Trial, trials: Sequence[Trial], beaten: Trial | None = None
) -> tuple[Trial, tuple[str, ...]]:
    """The one of `trials` that has the settings of `best` but for those that gained nothing, and
    which these are.

    What counts of a setting is how trials with it compare with those that differ by it alone and
    have all other settings of `best`, beside which it may gain what it does not elsewhere.

    Args:
        best: of the trials.
        trials: those that may be handed back.
        beaten: in turns with `best`; what it lacks did gain.
    """
    rates, by_key = _rates(trials), {key_of(each.config): each for each in trials}
    gains: dict[str, tuple[float, Trial]] = {}
    for change in best.config.items():
        rest = by_key.get(key_of(best.config) - {change})
        gain = _gain(change, key_of(best.config), rates)
        if rest and rest.config and rest is not beaten and gain <= 0:
            gains[change[0]] = gain, rest
    if not gains:
        return best, ()
    name = min(gains, key=lambda each: gains[each][0])
    left, others = without_gainless(gains[name][1], trials, beaten)
    return left, (name, *others)


def _gain(change: tuple[str, Value], best: Key, rates: Mapping[Key, float]) -> float:
    """What `change` gains in the company of the others of `best`, as a logarithm; infinite where
    too few trials know.
    """
    company = best - {change}
    pairs = [
        rates[key] - rates[key - {change}]
        for key in rates
        if change in key and company <= key and key - {change} in rates
    ]
    return fmean(pairs) if len(pairs) >= FEWEST_PAIRS else math.inf


def _rates(trials: Iterable[Trial]) -> dict[Key, float]:
    """The mean log rate of each configuration that was measured in a calm moment."""
    rates: dict[Key, list[float]] = {}
    for each in trials:
        outcome = each.outcome
        if isinstance(outcome, Measurement) and not outcome.is_shaken:
            rates.setdefault(key_of(each.config), []).append(math.log(outcome.samples_per_second))
    return {key: fmean(logs) for key, logs in rates.items()}
