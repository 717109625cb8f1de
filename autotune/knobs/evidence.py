"""What a profile says that a class of knobs could gain: a reason to skip them, or ""."""

import math

from autotune.profiling.ceilings import per_second
from autotune.profiling.memory_model import SCARCE_MEMORY
from autotune.profiling.profile import Profile
from autotune.workload.found import Apart
from autotune.workload.seen import SeenLoader
from autotune.workload.window import AS_IS

# A class of knobs that can gain less is not searched. Telling 5 % takes about 105 s of interleaved
# runs on a machine with neighbours (measured: log-ratios of 2-3 s windows have a deviation of
# 0.04-0.07); 3 % is beyond a search's budget.
SMALLEST_GAIN = 0.03

# Loaders that wait (disk, network) gain from more workers than cores: 16 gave 18x on 2 cores.
# Beyond 32 the memory of the workers themselves weighs more than what is left to gain.
MOST_WORKERS = 32

# How far what a model gives may lie from what it gives as it is, as a share: scrambled numbers
# lie about as far as they are large. And no further than so many times as far as by chance.
MOST_APART, TIMES_CHANCE = 0.25, 5.0
# And by how much it may call more or fewer functions for it.
MOST_CALLS = 0.1

NO_LOADER = "no DataLoader of torch's was seen to give the training its batches"
NO_OPTIMIZER = "no optimizer of torch's was seen to step"
NO_COPIES = "at most half of the steps were seen to copy a batch to the GPU, or none"

ON_THE_CPU = "the program trains on the CPU: no batch is copied to another device"

# A loader that delivers less than twice as fast as training takes does not keep up once computing
# takes half as long, as in shorter formats.
_KEEPS_UP = 1.0

# Of a step: who waits so long for data is not told by a ceiling alone that loading faster gains
# nothing. A program that slows down is timed slower with batches at hand than it was before.
_WAITS_NOTABLY = 0.1

# From this share of its time on, a loading process counts as keeping a core busy: what is left is
# the clock's and the system's own.
_DECODING_SHARE = 0.8


def percent(share: float) -> str:
    """A share as text: "12 %", "0.4 %", and never less than nothing."""
    value = max(0.0, 100 * share)
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def gives_another(found: Apart | None) -> str:
    """That a model gives something else of the same batch with a setting, or computes it in more or
    fewer rounds.
    """
    if found is None:
        return ""
    if abs(found.more_calls) > MOST_CALLS:
        which = "more" if found.more_calls > 0 else "fewer"
        return (
            f"the model then calls {percent(abs(found.more_calls))} {which} of torch's functions "
            "for the same batch (as where a loop of its own ends by its numbers)"
        )
    if not found.is_another(most=MOST_APART, times_chance=TIMES_CHANCE):
        return ""
    return f"the model then gives something else of the same batch (by {percent(found.apart)})"


def made_otherwise(loader: SeenLoader) -> str:
    """That batches are not made by the loader's batch_size; "" where they are."""
    if loader.custom_batches:
        return "its batches are made by a batch_sampler of its own"
    return (
        "" if loader.batch_size else "its loader has no batch_size: the dataset makes its batches"
    )


def on_cuda(profile: Profile) -> bool:
    """Whether the program trains on a GPU."""
    return profile.machine.device == "cuda"


def little_from_loading(profile: Profile) -> str:
    """Why faster loading is not worth a trial, by the ceiling with a batch at hand, or by the share
    of the waits. Workers that keep up by little would not with a model that computes faster.
    """
    data = _ceiling_gain(profile, "data")
    close = data is not None and data < _KEEPS_UP and _own_workers(profile) > 0
    if close and not little_from_computing(profile):
        return ""
    gain, waits = _ceiling_gain(profile, "host", "compute"), profile.phases.get("data")
    if gain is not None:
        if gain >= SMALLEST_GAIN or (waits or 0.0) >= _WAITS_NOTABLY:
            return ""
        return f"training hardly waits for data: loading faster can gain at most {percent(gain)}"
    if waits is None:
        return ""
    gain = _amdahl(min(1.0, waits + _taken_by_workers(profile)))
    if gain >= SMALLEST_GAIN:
        return ""
    return f"training hardly waits for data: loading faster can gain at most {percent(gain)}"


def little_from_computing(profile: Profile) -> str:
    """Why a faster forward and backward pass is not worth a trial, even once loading is as fast as
    it can be.
    """
    data = _ceiling_gain(profile, "data")
    if data is not None:
        more = max(1.0, most_workers(profile) / max(1, _own_workers(profile)))
        gain = (1 + data) * more - 1
        if gain < SMALLEST_GAIN:
            return f"loading holds training back: computing faster can gain at most {percent(gain)}"
    phases = profile.phases
    if "forward" not in phases or "backward" not in phases:
        return ""
    share = phases["forward"] + phases["backward"]
    if _amdahl(without_waits(profile, share)) >= SMALLEST_GAIN:
        return ""
    return f"forward and backward are {percent(share)} of a step: there is too little to gain"


def little_from_copying(profile: Profile) -> str:
    """Why faster copies to the device are not worth a trial."""
    host, compute = _ceiling_gain(profile, "host"), _ceiling_gain(profile, "compute")
    if host is not None and compute is not None:
        gain = (1 + compute) / (1 + host) - 1
    elif "copy" in profile.phases:
        gain = _amdahl(profile.phases["copy"])
    else:
        return ""
    if gain >= SMALLEST_GAIN:
        return ""
    return f"copying batches to the GPU costs little: doing it faster gains at most {percent(gain)}"


def models_pass(profile: Profile) -> str:
    """Why nothing can be done to a model before it trains."""
    if not profile.seen.models_made_anew:
        return ""
    return "the program makes a model for each few steps: what is done to one is gone with it"


def little_from_stepping(profile: Profile) -> str:
    """Why a faster optimizer step is not worth a trial."""
    share = profile.phases.get("optimizer")
    if share is None or _amdahl(without_waits(profile, share)) >= SMALLEST_GAIN:
        return ""
    return f"the optimizer takes {percent(share)} of a step: there is too little to gain"


def plenty_of_memory(profile: Profile) -> str:
    """Why saving memory is not worth a trial; "" where memory is scarce."""
    memory = profile.memory
    if memory.most_bytes is None or memory.capacity_bytes <= 0:
        return "how much memory the program needs was not measured"
    share = memory.most_bytes / memory.capacity_bytes
    if share >= SCARCE_MEMORY:
        return ""
    return f"memory is {percent(share)} full at its peak: none has to be saved"


def compute_seconds(profile: Profile) -> float:
    """Seconds of forward and backward in a step; the whole step where they were not told apart."""
    phases = profile.phases
    if "forward" not in phases or "backward" not in phases:
        return profile.step_seconds
    return profile.step_seconds * (phases["forward"] + phases["backward"])


def without_waits(profile: Profile, share: float) -> float:
    """`share` of a step as its share of what is left of the step once nothing waits for data."""
    waits = profile.phases.get("data", 0.0)
    return min(1.0, share / (1 - waits)) if waits < 1 else 1.0


def most_workers(profile: Profile) -> int:
    """The most loader workers that could still help, however many there are.

    Decoding that keeps a core busy can use the cores there are; waiting can be done many times at
    once.
    """
    loader = profile.seen.loader
    if loader is None:
        return _own_workers(profile)
    share, cores = _busy_share(profile), profile.machine.cores
    if share is None or share >= _DECODING_SHARE:
        return cores
    by_waiting = math.ceil(cores / share) if share > 0 else MOST_WORKERS
    return max(cores, min(MOST_WORKERS, by_waiting))


def loader_waits(profile: Profile) -> bool:
    """Whether loading waits (disk, network) more than it computes."""
    share = _busy_share(profile)
    return share is not None and share < 0.5


def _busy_share(profile: Profile) -> float | None:
    """The share of its time in which one loading process computes; several share the cores."""
    share = profile.data_processor_share
    if share is None:
        return None
    return share / max(1, min(_own_workers(profile), profile.machine.cores))


def _own_workers(profile: Profile) -> int:
    return profile.seen.loader.num_workers if profile.seen.loader else 0


def _taken_by_workers(profile: Profile) -> float:
    """Processor seconds in each second that a loader's workers may take from the rest of a step."""
    if on_cuda(profile):
        return 0.0
    as_is = [window for window in profile.windows if window.mode == AS_IS]
    taken = sum(window.worker_cpu_seconds for window in as_is)
    return per_second(taken, sum(window.seconds for window in as_is))


def _ceiling_gain(profile: Profile, *names: str) -> float | None:
    """What the first of these ceilings that was measured could gain, as a share."""
    for name in names:
        ceiling = profile.ceiling(name)
        if ceiling is not None and ceiling.max_gain is not None:
            return ceiling.max_gain - 1
    return None


def _amdahl(share: float) -> float:
    """The most that speeding up `share` of a step can gain."""
    return share / (1 - share) if share < 1 else math.inf
