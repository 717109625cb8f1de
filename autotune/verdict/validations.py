"""What a gain in steps comes to with the validations between them: settings may slow these down."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.measurement.ratios import Ratio
from autotune.workload.window import Window

# Of epochs that are cut short, validations are timed by so many at least, for so long altogether.
FEWEST_SHORT, LEAST_SHORT_SECONDS = 2, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations:
    """How many seconds one takes as the program is, and tuned; `share` of the time of the program
    as it is goes by in them. `whole` is how much faster the tuned program is, with them counted in.
    They may be `short` ones, of epochs that were cut short: none came in the turns.
    """

    own_seconds: float
    tuned_seconds: float
    share: float
    whole: float
    short: bool = False


def validations_in(
    own: Sequence[Window], tuned: Sequence[Window], speedup: Ratio
) -> Validations | None:
    """Those of the turns of both, where each has come to one, and steps are faster by `speedup`."""
    seconds = sum(each.validation_seconds for each in own)
    share = seconds / (seconds + sum(each.seconds for each in own)) if seconds else 0.0
    return _held(own, tuned, share, speedup)


def short_validations_in(
    own: Sequence[Window], tuned: Sequence[Window], share: float, speedup: Ratio
) -> Validations | None:
    """Those of epochs that were cut short in both; `share` of the program's time goes by in whole
    ones, 0.0 where that is not known, and they are counted in as nothing.
    """
    for each in (own, tuned):
        times = sum(window.validations for window in each)
        if times < FEWEST_SHORT or _seconds(each) < LEAST_SHORT_SECONDS:
            return None
    return _held(own, tuned, share, speedup, short=True)


def _held(
    own: Sequence[Window],
    tuned: Sequence[Window],
    share: float,
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
        share=share,
        whole=1 / ((1 - share) / speedup.estimate + share * tuned_each / each),
        short=short,
    )


def _seconds(windows: Sequence[Window]) -> float:
    return sum(window.validation_seconds for window in windows)
