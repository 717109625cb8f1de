"""What of a bottleneck a line of the program's own may mend, before any search."""

import os

from autotune.diagnosis import Bottleneck, Finding
from autotune.diagnosis.threads import too_many_threads
from autotune.flow.context import Context
from autotune.knobs import by_name
from autotune.knobs.knob import Choices, Config
from autotune.outputs.patch import emit
from autotune.profiling.profile import Profile
from autotune.profiling.starting import starting
from autotune.workload.program.target import OBJECTS

# A wait in each step that is shorter may be less than what a worker's batch costs to hand over,
# some 0.8 ms (`trials/loop.py`).
_WORTH_HANDING_OVER = 0.003


def by_hand(context: Context, profiled: Profile, first: Finding) -> str:
    """Such a line for what holds the program back `first`, in a sentence; "" where none is known,
    or its source forbids it.
    """
    looks = {Bottleneck.THREADS: _threads, Bottleneck.DATA: _loader}
    if first.severity == "info" or first.bottleneck not in looks:
        return ""
    config, line = looks[first.bottleneck](profiled)
    if context.target.kind != OBJECTS and config:
        refused = emit(context.target, config, profiled.seen).refused
        line = "" if any(edit.forbidden for edit in refused) else line
    return (
        f"To try by hand: {line}. A search looks whether the training stays the same with it, "
        "before it times it."
        if line
        else ""
    )


def _threads(profile: Profile) -> tuple[Config, str]:
    cores = profile.machine.cores
    if too_many_threads(profile):
        line = f"torch.set_num_threads({cores}) at the program's beginning"
        return {"threads": cores}, line
    line = "OPENBLAS_NUM_THREADS=1 in the environment that it is started in"
    return {"blas_threads": 1}, line


def _loader(profile: Profile) -> tuple[Config, str]:
    """Workers, of which each of a stream's may deliver all of it, or that live on."""
    loader, at = profile.seen.loader, profile.seen.places.loader
    if loader is None or loader.iterable or loader.threaded or loader.nested or loader.beside:
        return {}, ""
    there = f"in its DataLoader{f' ({os.path.basename(at.path)}:{at.line})' if at else ''}"
    if not loader.num_workers:
        workers = by_name("num_workers").domain(profile)
        waits = profile.phases.get("data", 0.0) * profile.step_seconds
        if waits < _WORTH_HANDING_OVER or not isinstance(workers, Choices):
            return {}, ""
        most = max(value for value in workers.values if isinstance(value, int))
        count = min(most, profile.machine.cores)
        return {"num_workers": count}, f"num_workers={count} {there}"
    living_on = by_name("persistent_workers").domain(profile)
    if starting(profile) is None or not isinstance(living_on, Choices):
        return {}, ""
    return {"persistent_workers": True}, f"persistent_workers=True {there}"
