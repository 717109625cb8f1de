"""One configuration that was tried, and what came of it."""

from dataclasses import dataclass

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A Config (only what differs from the program's own) and its Measurement or Failure. `seconds`
    is what it cost.
    """

    number: int
    config: Config
    outcome: Measurement | Failure
    seconds: float
