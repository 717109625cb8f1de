"""One configuration that was tried, what came of it, and why the search ended."""

from dataclasses import dataclass

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure, Measurement

# Why a search ends: what is left to gain is not worth its time, nothing can gain more, everything
# was tried, the sampler gives only what was, the time for trials or their number is used up, there
# was nothing to search, or the program as it is trains on nothing that could be compared.
PATIENCE, CEILING, EXHAUSTED, REPEATED = "patience", "ceiling", "exhausted", "repeated"
BUDGET, TRIALS, NOTHING, DIVERGES = "budget", "trials", "nothing", "diverges"
# Those of them after which the same search again would end at the same place.
FINAL = frozenset({PATIENCE, CEILING, EXHAUSTED, NOTHING})
# Failures that say nothing of a configuration: another time the machine is quieter, the disk
# emptier, and the GPU there again.
PASSING = ("busy", "no_space", "device_lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A Config (only what differs from the program's own) and its Measurement or Failure. `seconds`
    is what it cost.
    """

    number: int
    config: Config
    outcome: Measurement | Failure
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a search ended: `why` is one of the names above, `reason` a sentence."""

    why: str
    reason: str
