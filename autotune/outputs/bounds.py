"""What each figure of the most that could be gained is of, in the same words wherever it stands."""

from autotune.diagnosis import Bottleneck
from autotune.machine import CPU
from autotune.profiling.profile import ROOFLINE, Ceiling, Profile

# What costs nothing in each ceiling, and in the most that mending a bottleneck gains.
_IF_FREE = {
    "host": "loading in no time",
    "compute": "loading and copies in no time",
    "data": "all but loading in no time",
    ROOFLINE: "the device at its published peak",
}
_IF_GONE = {
    Bottleneck.DATA: "with loading in no time",
    Bottleneck.COPY: "with copies in no time",
    Bottleneck.OVERHEAD: "without waits for launches",
    Bottleneck.COMPUTE: "with computing in no time",
    Bottleneck.OPTIMIZER: "with the optimizer's step in no time",
    Bottleneck.SYNC: "without these waits for the device",
    Bottleneck.THREADS: "with one thread for NumPy",
    Bottleneck.CHECKS: "without anomaly detection",
    Bottleneck.DENORMALS: "without such numbers",
    Bottleneck.HOST: "with that code in no time",
    Bottleneck.VALIDATION: "without validations",
}


def distinct(profile: Profile) -> list[Ceiling]:
    """The ceilings of `profile`, without one that says what another does: on a CPU, where batches
    lie makes no difference.
    """
    on_cpu = profile.machine.device == CPU
    return [each for each in profile.ceilings if not (on_cpu and each.name == "host")]


def unmeasured(profile: Profile) -> dict[str, str]:
    """What was not measured, and why, without copies where there is no device to copy to."""
    on_cpu = profile.machine.device == CPU
    return {
        name: reason
        for name, reason in profile.not_measured.items()
        if not (on_cpu and name == "copy")
    }


def if_free(ceiling_name: str, device: str) -> str:
    """What a ceiling is of, after "with": "loading in no time"."""
    if ceiling_name == "compute" and device == CPU:  # there are no copies
        return _IF_FREE["host"]
    return _IF_FREE.get(ceiling_name, ceiling_name)


def if_gone(bottleneck: Bottleneck) -> str:
    """What the most that mending a bottleneck gains is of; no finding tells that of memory."""
    return _IF_GONE[bottleneck]
