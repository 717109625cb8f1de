"""What a loader's workers cost that are started anew for each epoch, by what was timed."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from autotune.profiling.profile import Profile
from autotune.workload.window import AS_IS

# The longest steps are the beginnings of epochs where most of them lie whole epochs apart; where no
# window has two of them, as there are about as many as epochs, each so many times as long as all
# others.
_MOST, _TIMES = 0.8, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """Workers that start anew with each epoch: by how many `seconds` its first step is longer for
    that than others, and how many samples an epoch has; `anew` says that the loader is built anew
    too, so that no worker of it could live on.
    """

    seconds: float
    epoch_samples: float
    anew: bool


def starting(profile: Profile) -> Starting | None:
    """None where no workers were seen to start between two epochs, or none has to."""
    loader, per_step = profile.seen.loader, profile.seen.samples_per_step
    if loader is None or not loader.num_workers or loader.persistent_workers or not per_step:
        return None
    steps_of_epoch = round((loader.dataset_length or 0) / per_step)
    windows = [window for window in profile.windows if window.mode == AS_IS]
    steps = [seconds for window in windows for seconds in window.step_seconds]
    epochs = round(len(steps) / steps_of_epoch) if steps_of_epoch > 1 else 0
    if epochs < 2:
        return None
    ordered = sorted(steps)
    # Windows that begin and end within epochs may have one beginning more of them, or one less.
    counts = range(max(2, epochs - 1), min(epochs + 2, len(steps)))
    epochs = max(counts, key=lambda count: ordered[-count] / ordered[-count - 1], default=epochs)
    longest, next_longest = ordered[-epochs:], ordered[-epochs - 1]
    apart = [
        after - before
        for window in windows
        for before, after in pairwise(
            place for place, took in enumerate(window.step_seconds) if took >= longest[0]
        )
    ]
    whole = [distance for distance in apart if abs(_remainder(distance, steps_of_epoch)) <= 1]
    if len(whole) < _MOST * len(apart) or (not apart and longest[0] < _TIMES * next_longest):
        return None
    usual = median(steps)
    longer = fmean(longest) - usual
    if longer < usual:
        return None
    waited = sum(window.phases.get("data", 0.0) for window in windows) / epochs
    return Starting(
        seconds=min(longer, waited),
        epoch_samples=steps_of_epoch * per_step,
        anew=loader.epochs < 2,
    )


def _remainder(distance: int, whole: int) -> int:
    """How far `distance` is from a multiple of `whole`."""
    return (distance + whole // 2) % whole - whole // 2
