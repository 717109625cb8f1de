"""What a gain in steps comes to with the validations between them: settings may slow these down."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.measurement.ratios import Ratio
from autotune.workload.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations:
    """How many seconds one takes as the program is, and tuned; `share` of the time of the program
    as it is goes by in them. `whole` is how much faster the tuned program is, with them counted in.
    """

    own_seconds: float
    tuned_seconds: float
    share: float
    whole: float


def validations_in(
    own: Sequence[Window], tuned: Sequence[Window], speedup: Ratio
) -> Validations | None:
    """Those of the turns of both, where each has come to one, and steps are faster by `speedup`."""
    times, tuned_times = (sum(each.validations for each in taken) for taken in (own, tuned))
    if not (times and tuned_times):
        return None
    seconds, tuned_seconds = (
        sum(each.validation_seconds for each in taken) for taken in (own, tuned)
    )
    share = seconds / (seconds + sum(each.seconds for each in own))
    slower = (tuned_seconds / tuned_times) / (seconds / times)
    return Validations(
        own_seconds=seconds / times,
        tuned_seconds=tuned_seconds / tuned_times,
        share=share,
        whole=1 / ((1 - share) / speedup.estimate + share * slower),
    )
