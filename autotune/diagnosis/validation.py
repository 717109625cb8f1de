"""How much of the time goes by in validations."""

import math
import os
from dataclasses import dataclass

from autotune.diagnosis.finding import (
    Bottleneck,
    Finding,
    can_gain,
    most_gain,
    percent,
    severity,
)
from autotune.profiling.profile import Profile
from autotune.source.edits import Place
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS

# A usual validation is shorter than what it validates by far.
VALIDATION_WARNING, VALIDATION_CRITICAL = 0.35, 0.60
# One or two may have come by chance while the program was watched, but two tell how often they do.
FEWEST_VALIDATIONS, FEWEST_IN_STEPS = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationShare:
    """What validations take of a program's time if they come as `often` as that is, 0.0 where it is
    not known.
    """

    of_time: float
    often: str


def validation(profile: Profile) -> Finding | None:
    """That validations take much of the time, all of which other shares leave out."""
    found, times_seen = validation_share(profile), _times_seen(profile)
    share = found.of_time
    seen, when = f"Of the observed time {percent(share)} went by in {times_seen} validations", ""
    if times_seen < FEWEST_VALIDATIONS:
        when = f", {found.often}"
        seen = f"Validations take {percent(share)} of the time{when}"
    grade = severity(share, VALIDATION_WARNING, VALIDATION_CRITICAL)
    if not grade:
        return None
    if may_be_rollouts(profile.seen):
        return _between_steps(share, grade, when)
    gain = most_gain(share)
    return Finding(
        bottleneck=Bottleneck.VALIDATION,
        severity=grade,
        evidence=f"{seen}{_other_loader(profile.seen)}. A pass over the data without gradients "
        f"counts as one{_generated(profile.seen)}.",
        max_gain=gain,
        headline=f"Validates {percent(share)} of the time{when}; without that it {can_gain(gain)}.",
    )


def may_be_rollouts(seen: Seen) -> bool:
    """Whether what goes by without gradients between steps need not be a validation: no loader has
    other data.
    """
    return seen.loader is None and not _others(seen)


def _between_steps(share: float, grade: str, when: str) -> Finding:
    return Finding(
        bottleneck=Bottleneck.VALIDATION,
        severity=grade,
        evidence="That may be a validation, or what it generates to learn from (rollouts). What "
        "settings do to it was not timed.",
        max_gain=None,
        headline=f"Is between its training steps {percent(share)} of the time{when}: it calls its "
        "model without gradients there.",
    )


def _other_loader(seen: Seen) -> str:
    """Where the one loader is built that is none of the training's, a validation's mostly."""
    others = _others(seen)
    if len(others) != 1 or seen.places.loader is None:
        return ""
    at = f"{os.path.basename(others[0].path)}:{others[0].line}"
    return f"; no setting of the other loader ({at}) is searched"


def _generated(seen: Seen) -> str:
    """What a validation may be where none has a loader."""
    return "" if _others(seen) else ", as does what the model generates between steps"


def _others(seen: Seen) -> list[Place]:
    return [each for each in seen.loaders_at if each != seen.places.loader]


def validation_share(profile: Profile) -> ValidationShare:
    """What validations take of the program's time."""
    times_seen, share = _times_seen(profile), profile.validation_share
    if times_seen >= FEWEST_VALIDATIONS:
        return ValidationShare(of_time=share, often="as often as when it was profiled")
    return _share_by_steps(profile, times_seen)


def validation_seen(profile: Profile) -> str:
    """What the program does between its steps takes of its time; of what came too seldom to tell
    how often it does, what it took.
    """
    what = "what it does between its steps" if may_be_rollouts(profile.seen) else "validation"
    times_seen, found = _times_seen(profile), validation_share(profile)
    if times_seen >= FEWEST_VALIDATIONS:
        return f"{what} took {percent(found.of_time)} of the observed run"
    if found.of_time:
        return f"{what} takes {percent(found.of_time)} of the time, {found.often}"
    seconds = sum(window.validation_seconds for window in profile.windows if window.mode == AS_IS)
    return f"{what} took {seconds:.1f} s while it was profiled, and may come seldom"


def _times_seen(profile: Profile) -> int:
    return sum(window.validations for window in profile.windows if window.mode == AS_IS)


def steps_of_an_epoch(seen: Seen) -> float:
    """How many steps an epoch has, infinitely many where that is not known. By samples: a step may
    run many backward passes on a batch, or take several batches. No fewer than as if each backward
    pass had a batch of its own, whatever the model counts as samples.
    """
    loader = seen.loader
    if loader is None or loader.length is None:
        return math.inf
    whole = None if loader.drop_last else loader.dataset_length
    samples = whole or loader.length * (loader.batch_size or 0)
    if not samples or not seen.samples_per_step:
        return loader.length
    fewest = loader.length / max(1.0, seen.backwards_per_step)
    return max(fewest, samples / seen.samples_per_step)


def _share_by_steps(profile: Profile, times_seen: int) -> ValidationShare:
    """What a validation takes of itself and the steps before it: those of an epoch, or as many as
    came between two.

    What a single one took of the observed time says how long was looked, and no more.
    """
    windows = [window for window in profile.windows if window.mode == AS_IS]
    steps, often = steps_of_an_epoch(profile.seen), "supposing one an epoch"
    seen_between = sum(window.steps for window in windows) / max(1, times_seen - 1)
    if times_seen >= FEWEST_IN_STEPS and seen_between < steps:
        steps, often = seen_between, f"at least every {seen_between:.0f} steps"
    if not times_seen or steps == math.inf:
        return ValidationShare(of_time=0.0, often=often)
    seconds = sum(window.validation_seconds for window in windows) / times_seen
    share = seconds / (seconds + steps * profile.step_seconds)
    return ValidationShare(of_time=share, often=often)
