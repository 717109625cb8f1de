"""What a gain in steps comes to with the validations between them: settings may slow these down."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.measurement.interleaved.turns import Turns
from autotune.measurement.ratios import Ratio
from autotune.verdict.contestants import BASELINE, TUNED
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


def validations_in(turns: Turns, speedup: Ratio) -> Validations | None:
    """Those of the turns, where both have come to one, and steps are faster by `speedup`."""
    own, tuned = (_all(turns, name) for name in (BASELINE, TUNED))
    if not (_times(own) and _times(tuned)):
        return None
    share = _seconds(own) / (_seconds(own) + sum(each.seconds for each in own))
    own_seconds, tuned_seconds = (_seconds(each) / _times(each) for each in (own, tuned))
    lasts = (1 - share) / speedup.estimate + share * tuned_seconds / own_seconds
    return Validations(
        own_seconds=own_seconds, tuned_seconds=tuned_seconds, share=share, whole=1 / lasts
    )


def _all(turns: Turns, name: str) -> list[Window]:
    return [window for taken in turns.windows.get(name, ()) for window in taken]


def _times(windows: Sequence[Window]) -> int:
    return sum(each.validations for each in windows)


def _seconds(windows: Sequence[Window]) -> float:
    return sum(each.validation_seconds for each in windows)
