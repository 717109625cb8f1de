"""Why a search has no answer."""

import math
import time
from collections.abc import Sequence

from autotune.diagnosis.finding import times
from autotune.flow.context import TRIAL_SECONDS, Context
from autotune.flow.trying import FEWEST_TRIALS, Found
from autotune.measurement.measurement import Failure, Measurement
from autotune.outputs.wording import settings, size
from autotune.profiling.profile import PROCESSORS_TAKEN, Profile
from autotune.trials.space import Space
from autotune.trials.trial import DIVERGES, FINAL, Trial
from autotune.verdict.clear import MINIMUM_GAIN

# A budget is advised in whole tens of seconds.
BUDGET_STEP_SECONDS = 10
# Where other programs spoilt half of the trials, what was left found nothing by chance.
MOST_SPOILT = 1 / 2


def why_untried(context: Context, profiled: Profile, space: Space, found: Found) -> str:
    """Why no setting was tried where some might have been: the training, others' searches, or the
    budget, and which one would do.
    """
    if found.ending.why == DIVERGES:
        return found.ending.reason
    if found.tried or not space.choices or found.ending.why in FINAL:
        return ""
    if time.monotonic() < context.deadline:
        return f"No setting was tried. {found.ending.reason}"
    trial_seconds = profiled.startup_seconds + context.run_seconds + TRIAL_SECONDS[0]
    needed = (context.spent_seconds + FEWEST_TRIALS * trial_seconds) / (1 - context.verdict_share)
    budget = math.ceil(needed / BUDGET_STEP_SECONDS) * BUDGET_STEP_SECONDS
    return (
        f"The budget of {context.options.budget_seconds:g} s was used up before any setting was "
        "tried: starting the program, profiling it and looking at what may be tried took "
        f"{context.spent_seconds:.0f} s. A budget of {budget} s should do."
    )


def why_unknown(profiled: Profile, trials: Sequence[Trial], *, limited: bool = False) -> str:
    """Why nothing can be said where settings were tried: the program ends too soon, or none of them
    could be measured, or held to a memory limit.
    """
    if profiled.ends_too_soon:
        return (
            "The program ends before its speed can be told: let it train longer, with more epochs "
            "or more data."
        )
    tried = [trial.outcome for trial in trials if trial.config]
    failures = [outcome for outcome in tried if isinstance(outcome, Failure)]
    measured = [outcome for outcome in tried if isinstance(outcome, Measurement)]
    disturbed = [
        each for each in measured if any(at.name == PROCESSORS_TAKEN for at in each.doubts)
    ]
    if limited and measured and all(outcome.peak_bytes is None for outcome in measured):
        return (
            f"Of {len(tried)} settings tried none could be held to the memory limit: of those that "
            "could be measured it is not known how much memory they need."
        )
    spoilt = len(disturbed) + sum(failure.kind == "busy" for failure in failures)
    sound = len(tried) - len(failures) - len(disturbed)
    reasons = "; ".join(dict.fromkeys(failure.reason for failure in failures))
    if tried and (spoilt >= MOST_SPOILT * len(tried) if sound else disturbed):
        others = (failure.reason for failure in failures if failure.kind != "busy")
        return _why_disturbed(len(tried), sound, spoilt, "; ".join(dict.fromkeys(others)))
    if not tried or sound:
        return ""
    if len(tried) == 1:
        return f"The one setting tried could not be measured: {reasons}"
    return f"None of the {len(tried)} settings tried could be measured: {reasons}"


def _why_disturbed(tried: int, sound: int, spoilt: int, reasons: str) -> str:
    """That so many of the settings tried were `spoilt`, so that no more, or none, are `sound`; the
    others failed, for these `reasons`.
    """
    if spoilt < MOST_SPOILT * tried:
        return (
            f"None of the {tried} settings tried could be measured undisturbed: the machine was "
            f"too busy for {spoilt}, and the others failed: {reasons}"
        )
    left = f"only {sound}" if sound else "none"
    return (
        f"The machine was too busy: of {tried} settings tried {left} could be measured undisturbed."
    )


def why_too_large(trials: Sequence[Trial], limit_bytes: int | None) -> str:
    """That what came out faster needs more memory than it may; "" where nothing did."""
    if limit_bytes is None:
        return ""
    measured = [
        (each.config, each.outcome) for each in trials if isinstance(each.outcome, Measurement)
    ]
    own = max((out.samples_per_second for config, out in measured if not config), default=math.inf)
    large = [
        (out.samples_per_second / own, config, out.peak_bytes)
        for config, out in measured
        if config and out.peak_bytes is not None and out.peak_bytes > limit_bytes
    ]
    gain, config, needed = max(large, key=lambda each: each[0], default=(0.0, {}, 0))
    if gain <= MINIMUM_GAIN:
        return ""
    return (
        f"What came out faster takes more memory than the limit of {size(limit_bytes)} allows: "
        f"{settings(config)} came out {times(gain)} as fast and takes {size(needed)}."
    )
