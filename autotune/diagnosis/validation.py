"""How much of the time goes by in validations."""

from autotune.diagnosis.finding import (
    Bottleneck,
    Finding,
    can_gain,
    most_gain,
    percent,
    severity,
)
from autotune.profiling.profile import Profile
from autotune.workload.window import AS_IS

# A usual validation is shorter than what it validates by far.
VALIDATION_WARNING, VALIDATION_CRITICAL = 0.35, 0.60
FEWEST_VALIDATIONS = 3  # one or two may have come by chance while the program was watched


def validation(profile: Profile) -> Finding | None:
    """That validations take much of the time, all of which other shares leave out."""
    share = profile.validation_share
    times_seen = sum(window.validations for window in profile.windows if window.mode == AS_IS)
    seen, when = f"Of the observed time {percent(share)} went by in {times_seen} validations", ""
    if times_seen < FEWEST_VALIDATIONS:
        share = _share_of_an_epoch(profile, times_seen)
        seen, when = f"A validation takes {percent(share)} of an epoch with one", ", once an epoch"
    grade = severity(share, VALIDATION_WARNING, VALIDATION_CRITICAL)
    if not grade:
        return None
    gain = most_gain(share)
    return Finding(
        bottleneck=Bottleneck.VALIDATION,
        severity=grade,
        evidence=f"{seen}: validate less often, on less, or in larger batches. All other shares "
        "are of training steps.",
        max_gain=gain,
        headline=f"Validates {percent(share)} of the time{when}; without that it {can_gain(gain)}.",
    )


def _share_of_an_epoch(profile: Profile, times_seen: int) -> float:
    """The share of an epoch that one validation takes, by its length; 0.0 where that is not known.

    What a single one took of the observed time says how long was looked, and no more.
    """
    loader = profile.seen.loader
    if not times_seen or loader is None or loader.length is None:
        return 0.0
    windows = (window for window in profile.windows if window.mode == AS_IS)
    seconds = sum(window.validation_seconds for window in windows) / times_seen
    steps = loader.length / max(1.0, profile.seen.backwards_per_step)
    return seconds / (seconds + steps * profile.step_seconds)
