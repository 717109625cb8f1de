"""What a gain in steps comes to with the validations between them: settings may slow these down."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from autotune.diagnosis.validation import ValidationShare, may_be_rollouts
from autotune.measurement.ratios import Ratio
from autotune.workload.seen import Seen
from autotune.workload.window import Window

# Of epochs that are cut short, validations are timed by so many at least, for so long altogether;
# and so is what else comes between them, which makes a step so much longer than others.
FEWEST_SHORT, LEAST_SHORT_SECONDS = 2, 0.25
LONGER, LONGER_SECONDS = 4.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations:
    """How many seconds one takes as the program is, and tuned; `share` of the time of the program
    as it is goes by in them. `whole` is how much faster the tuned program is, with them counted in
    as `often` as that is.
    They may be `short` ones, of epochs that were cut short: none came in the turns. Or they are
    what else goes by `between` such epochs: code of the program's own that calls no model. Where no
    loader has other data they may be no validations: what it `generates`, to learn from.
    """

    own_seconds: float
    tuned_seconds: float
    share: float
    whole: float
    often: str = ""
    short: bool = False
    between: bool = False
    generates: bool = False

    def of(self, seen: Seen) -> "Validations":
        """These, of a program of which a run was `seen`."""
        return replace(self, generates=not self.between and may_be_rollouts(seen))


def validations_in(
    own: Sequence[Window], tuned: Sequence[Window], speedup: Ratio
) -> Validations | None:
    """Those of the turns of both, where each has come to one, and steps are faster by `speedup`."""
    seconds = sum(each.validation_seconds for each in own)
    share = seconds / (seconds + sum(each.seconds for each in own)) if seconds else 0.0
    times, steps = (sum(map(attrgetter(name), own)) for name in ("validations", "steps"))
    came = f"{'once' if times == 1 else f'{times} times'} in {steps:,} steps"
    found = ValidationShare(of_time=share, often=f"as often as in its turns ({came})")
    return _held(own, tuned, found, speedup)


def short_validations_in(
    own: Sequence[Window], tuned: Sequence[Window], share: ValidationShare, speedup: Ratio
) -> Validations | None:
    """Those of epochs that were cut short in both, where whole ones take `share`: where nothing is
    known of that, they count as nothing.
    """
    for each in (own, tuned):
        times = sum(window.validations for window in each)
        if times < FEWEST_SHORT or _seconds(each) < LEAST_SHORT_SECONDS:
            return None
    return _held(own, tuned, share, speedup, short=True)


def between_epochs_in(
    own: Sequence[Window], tuned: Sequence[Window], epoch_seconds: float, speedup: Ratio
) -> Validations | None:
    """What else comes between epochs that were cut short in both, told by the steps that it makes
    longer, where those of a whole epoch take `epoch_seconds` as the program is; None where it does
    not lose what the steps gain.
    """
    both = [_longer(each) for each in (own, tuned)]
    if any(len(each) < FEWEST_SHORT or sum(each) < LEAST_SHORT_SECONDS for each in both):
        return None
    each, tuned_each = map(statistics.median, both)
    share = each / (each + epoch_seconds)
    whole = _whole(share, tuned_each / each, speedup)
    if whole >= 1:
        return None
    return Validations(
        own_seconds=each,
        tuned_seconds=tuned_each,
        share=share,
        whole=whole,
        often="once an epoch",
        between=True,
    )


def _longer(windows: Sequence[Window]) -> list[float]:
    """How much longer than the others steps take that are much longer."""
    steps = [step for window in windows for step in window.step_seconds]
    usual = statistics.median(steps) if steps else 0.0
    longer = (step - usual for step in steps if step > LONGER * usual)
    return [step for step in longer if step > LONGER_SECONDS]


def _held(
    own: Sequence[Window],
    tuned: Sequence[Window],
    share: ValidationShare,
    speedup: Ratio,
    *,
    short: bool = False,
) -> Validations | None:
    times, tuned_times = (sum(window.validations for window in each) for each in (own, tuned))
    if not (times and tuned_times):
        return None
    each, tuned_each = _seconds(own) / times, _seconds(tuned) / tuned_times
    return Validations(
        own_seconds=each,
        tuned_seconds=tuned_each,
        share=share.of_time,
        whole=_whole(share.of_time, tuned_each / each, speedup),
        often=share.often,
        short=short,
    )


def _whole(share: float, longer: float, speedup: Ratio) -> float:
    return 1 / ((1 - share) / speedup.estimate + share * longer)


def _seconds(windows: Sequence[Window]) -> float:
    return sum(window.validation_seconds for window in windows)
