"""What a bottleneck is, and how it is said."""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from autotune.profiling.profile import Ceiling, Profile
from autotune.workload.window import AS_IS

STANDARD_ERRORS = 2.0  # about 95 %

# A ceiling this close to the program as it is says that the class of changes gains nothing.
NO_GAIN = 1.05
NOTHING = 1.005  # as it is shown
LEAST_PERCENT = 0.01
# Shares of a step from which data, copies and time that no phase accounts for are worth a warning,
# and critical: TraceML's 10 and 20 %, which the other tools' values lie around.
WAIT_WARNING, WAIT_CRITICAL = 0.10, 0.20


class Bottleneck(StrEnum):
    """The closed list of what can hold a training step back."""

    DATA = "data"  # the device waits for the loader
    COPY = "copy"  # the device waits for batches to arrive in its memory
    OVERHEAD = "overhead"  # the host cannot launch work fast enough: many tiny operations
    COMPUTE = "compute"  # the device computes all the time
    OPTIMIZER = "optimizer"  # the optimizer's own step takes a large share
    MEMORY = "memory"  # what is close to the device's memory
    SYNC = "sync"  # the host waits for the device, and the device then for the host
    THREADS = "threads"  # threads of several libraries that take the cores from one another
    CHECKS = "checks"  # aids to find mistakes, left on
    DENORMALS = "denormals"  # numbers too small for their format, which a processor is slow with
    HOST = "host"  # the program's own Python between the phases
    VALIDATION = "validation"  # what is done between training steps with a model that is evaluated


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One bottleneck.

    `severity` is "info", "warning" or "critical"; `max_gain` a ratio, None where unknown.
    """

    bottleneck: Bottleneck
    severity: str
    evidence: str
    max_gain: float | None
    headline: str


def severity(share: float, warning: float, critical: float) -> str:
    """The severity of a share; "" below both thresholds."""
    return "critical" if share >= critical else "warning" if share >= warning else ""


def most_gain(share: float, *ceilings: Ceiling | None) -> float:
    """The most that removing `share` of a step gains: a measured ceiling, else by Amdahl."""
    for ceiling in ceilings:
        if ceiling and ceiling.max_gain is not None:
            return max(1.0, ceiling.max_gain)
    return 1 / max(1 - share, 0.001)


def can_gain(gain: float) -> str:
    """What a gain is in a sentence."""
    if gain < NO_GAIN:
        return f"can gain {percent(gain - 1)} at most" if gain > NOTHING else "would gain nothing"
    return f"can gain up to {times(gain)}"


def rate(value: float) -> str:
    """Samples a second, without their unit."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def times(ratio: float) -> str:
    """A ratio, rounded as everywhere: "2.31x" with a true multiplication sign, "23.1x", "231x"."""
    decimals = 2 if abs(ratio) < 10 else 1 if abs(ratio) < 100 else 0
    return f"{ratio:,.{decimals}f}×"


def end(ratio: float) -> str:
    """An end of a ratio's interval, rounded as others, but to 1 only where it is 1: "1.003×"."""
    decimals = next((each for each in (2, 3, 4, 5) if round(ratio, each) != 1), 2)
    return times(ratio) if decimals == 2 else f"{ratio:.{decimals}f}×"


def ends(low: float, high: float) -> str:
    """Both ends of a ratio's interval, without the sign: "1.003 to 1.10"."""
    return f"{end(low)} to {end(high)}".replace("×", "")


def percent(share: float) -> str:
    """A share."""
    return f"{100 * share:.0f} %"


def percent_or_less(share: float) -> str:
    """A share that is not nothing, however small: "less than 1 %"."""
    return percent(share) if share >= LEAST_PERCENT else "less than 1 %"


def milliseconds(seconds: float) -> str:
    """A time, in milliseconds."""
    return f"{1000 * seconds:.3g} ms"


def surely(profile: Profile, phase: str) -> float:
    """The lower end of the phase's share, by how much it differs between windows."""
    shares = [
        window.phases.get(phase, 0.0) / window.seconds
        for window in profile.windows
        if window.mode == AS_IS and window.seconds > 0
    ]
    share = profile.phases.get(phase, 0.0)
    loader = profile.seen.loader
    if len(shares) < 2 or (loader and loader.threaded):  # windows do not see what it waits for
        return share
    return min(share, fmean(shares) - STANDARD_ERRORS * stdev(shares) / math.sqrt(len(shares)))
