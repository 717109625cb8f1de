"""What each figure of the most that could be gained is of, in the same words wherever it stands."""

from autotune.machine import CPU
from autotune.profiling.profile import ROOFLINE, Ceiling, Profile

# What costs nothing in each ceiling.
_IF_FREE = {
    "host": "loading in no time",
    "compute": "loading and copies in no time",
    "data": "all but loading in no time",
    ROOFLINE: "the device at its published peak",
}


def distinct(profile: Profile) -> list[Ceiling]:
    """The ceilings of `profile`, without those that were computed from shares, and one that says
    what another does: on a CPU, where batches lie makes no difference. None where none was timed of
    a program without a loader.
    """
    on_cpu = profile.machine.device == CPU
    timed = [each for each in profile.ceilings if each.max_gain is None or not each.reason]
    kept = [each for each in timed if not (on_cpu and each.name == "host")]
    timed_any = any(each.max_gain is not None for each in kept)
    return kept if timed_any or profile.seen.loader else []


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
