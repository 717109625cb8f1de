"""What of a bottleneck a line of the program's own may mend, before any search."""

import os

from autotune.diagnosis import Bottleneck
from autotune.knobs import by_name
from autotune.knobs.knob import Choices
from autotune.profiling.profile import Profile
from autotune.profiling.starting import starting
from autotune.result import Result

# A wait in each step that is shorter may be less than what a worker's batch costs to hand over,
# some 0.8 ms (`trials/loop.py`).
_WORTH_HANDING_OVER = 0.003


def by_hand(result: Result) -> str:
    """Such a line for what holds the program back first, in a sentence; "" where none is known, or
    a search has an answer.
    """
    first = next(iter(result.diagnosis), None)
    if result.verdict is not None or first is None or first.severity == "info":
        return ""
    looks = {Bottleneck.THREADS: _threads, Bottleneck.DATA: _loader}
    line = looks[first.bottleneck](result.profile) if first.bottleneck in looks else ""
    return (
        f"To try by hand: {line}. A search times it, and looks whether the training stays the same."
        if line
        else ""
    )


def _threads(profile: Profile) -> str:
    cores = profile.machine.cores
    if profile.seen.threads > cores:
        return f"torch.set_num_threads({cores}) at the program's beginning"
    return "OPENBLAS_NUM_THREADS=1 in the environment that it is started in"


def _loader(profile: Profile) -> str:
    """Workers, of which each of a stream's may deliver all of it, or that live on."""
    loader, at = profile.seen.loader, profile.seen.places.loader
    if loader is None or loader.iterable or loader.threaded or loader.nested or loader.beside:
        return ""
    place = f" ({os.path.basename(at.path)}:{at.line})" if at else ""
    if not loader.num_workers:
        if profile.phases.get("data", 0.0) * profile.step_seconds < _WORTH_HANDING_OVER:
            return ""
        workers = by_name("num_workers").domain(profile)
        if not isinstance(workers, Choices):
            return ""
        most = max(value for value in workers.values if isinstance(value, int))
        return f"num_workers={min(most, profile.machine.cores)} in its DataLoader{place}"
    living_on = by_name("persistent_workers").domain(profile)
    if starting(profile) is None or not isinstance(living_on, Choices):
        return ""
    return f"persistent_workers=True in its DataLoader{place}"
