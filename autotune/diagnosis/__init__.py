"""What holds the program back: bottlenecks, with their evidence and the most that fixing gains."""

import math
from statistics import fmean, stdev

from autotune.diagnosis.device import (
    allocator_of_device,
    copy_evidence,
    exposed_copies,
    launches_of_device,
    peak_evidence,
    small_parts_of_device,
    syncs_of_device,
)
from autotune.diagnosis.finding import (
    NO_GAIN,
    WAIT_CRITICAL,
    WAIT_WARNING,
    Bottleneck,
    Finding,
    can_gain,
    milliseconds,
    most_gain,
    percent,
    rate,
    severity,
    times,
)
from autotune.diagnosis.host import busiest, own_python, share_outside
from autotune.diagnosis.validation import validation, validation_share
from autotune.profiling.memory_model import SCARCE_MEMORY
from autotune.profiling.profile import Profile
from autotune.profiling.trace import LAUNCH, SYNC
from autotune.workload.window import AS_IS

__all__ = ["Bottleneck", "Finding", "diagnose"]

# Shares of a step from which a phase is worth a warning, and critical.
OPTIMIZER_WARNING, OPTIMIZER_CRITICAL = 0.20, 0.40
# Peak over capacity (TraceML).
MEMORY_CRITICAL = 0.97

# Steps shorter than this that still compute most of the time are small operations: starting one
# costs 5 to 20 us from Python, and a step of the smallest model starts a hundred. Unless they get
# through this many operations a second on each core, which only large ones do (a matrix product
# of 700 x 700: 1e11; a classifier of 2,400 weights with batches of 32: 3e8).
TINY_STEP_SECONDS = 0.005
WORKING_RATE = 5e9
MOSTLY = 0.5

# A loader that keeps this much of a core busy decodes or transforms; below the other it waits.
WORKING_SHARE, WAITING_SHARE = 0.6, 0.3
ALL_CORES = 0.9  # of all cores: from here on the loader has used them up

STANDARD_ERRORS = 2.0  # about 95 %
UNDISTURBED = 1.1  # what the rest of a step gains at most by not making batches itself
# Batches that cost nothing gain so many times what not waiting for them gains: the workers that
# make them have slowed the rest of a step.
CROWDED = 1.5
RANKS = {"critical": 0, "warning": 1, "info": 2}
COMPUTING = ("forward", "backward", "optimizer")
GIB = 1 << 30


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """The bottlenecks of `profile`, the one that holds it back most first; never empty."""
    looks = (
        *(validation, _data, _copy, syncs_of_device, own_python, _optimizer, _overhead),
        *(_memory, allocator_of_device, small_parts_of_device, _compute),
    )
    found = [finding for look in looks if (finding := look(profile)) is not None]
    found.sort(key=lambda each: (RANKS[each.severity], -_weight(profile, each.bottleneck)))
    return tuple(found)


def _weight(profile: Profile, bottleneck: Bottleneck) -> float:
    """The share of a step that `bottleneck` is about; memory takes no time."""
    if bottleneck is Bottleneck.SYNC:
        return profile.gpu.idle.get(SYNC, 0.0) if profile.gpu else 0.0
    if bottleneck is Bottleneck.OVERHEAD and profile.gpu and profile.gpu.trace:
        return profile.gpu.idle.get(LAUNCH, 0.0)
    if bottleneck is Bottleneck.VALIDATION:
        return validation_share(profile)
    if bottleneck is Bottleneck.HOST:
        return share_outside(profile)
    names = {
        Bottleneck.DATA: ("data",),
        Bottleneck.COPY: ("copy",),
        Bottleneck.OPTIMIZER: ("optimizer",),
        Bottleneck.OVERHEAD: ("forward", "backward"),
        Bottleneck.COMPUTE: COMPUTING,
        Bottleneck.MEMORY: (),
    }[bottleneck]
    return sum(profile.phases.get(name, 0.0) for name in names)


def _data(profile: Profile) -> Finding | None:
    grade = severity(_surely(profile, "data"), WAIT_WARNING, WAIT_CRITICAL)
    if not grade:
        return None
    share = profile.phases["data"]
    gain, beyond = _gain_of_loading(profile, share)
    loader = profile.seen.loader
    crowded = loader and loader.num_workers and gain > CROWDED * most_gain(share)
    slowed = ", and workers take processors from the rest" if crowded else ""
    return Finding(
        bottleneck=Bottleneck.DATA,
        severity=grade if gain >= NO_GAIN else "info",
        evidence=" ".join(filter(None, (_loader_at_work(profile), _rates(profile), beyond))),
        max_gain=gain,
        headline=f"Waits for data {percent(share)} of each step{busiest(profile, 'data')}{slowed}; "
        f"loading faster {can_gain(gain)}.",
    )


def _gain_of_loading(profile: Profile, share: float) -> tuple[float, str]:
    """The most that loading faster gains, and why that is less than its ceiling where it is: what
    a loader in the training process takes is all that it can give back.
    """
    gain = most_gain(share, profile.ceiling("host"), profile.ceiling("compute"))
    loader, most = profile.seen.loader, UNDISTURBED * most_gain(share)
    if loader is None or loader.num_workers or loader.threaded or gain <= most:
        return gain, ""
    return most, (
        f"With batches always at hand it ran {times(gain)} as fast: not all of that is the "
        "loader's to give back."
    )


def _copy(profile: Profile) -> Finding | None:
    exposed = exposed_copies(profile)
    grade = severity(max(_surely(profile, "copy"), exposed), WAIT_WARNING, WAIT_CRITICAL)
    if not grade:
        return None
    seen, share = profile.seen, max(profile.phases.get("copy", 0.0), exposed)
    gain = most_gain(share)
    compute = profile.ceiling("compute")
    if compute and compute.max_gain is not None:
        gain = max(1.0, min(gain, compute.max_gain))
    memory = "pinned" if seen.loader and seen.loader.pin_memory else "pageable"
    return Finding(
        bottleneck=Bottleneck.COPY,
        severity=grade if gain >= NO_GAIN else "info",
        evidence=copy_evidence(profile)
        or f"Each batch of {seen.batch_bytes / 1e6:.1f} MB is copied from {memory} memory, "
        f"{'non-blocking' if seen.non_blocking else 'and the program waits for it'}.",
        max_gain=gain,
        headline=f"Copies batches to the device {percent(share)} of each step; "
        f"hiding that {can_gain(gain)}.",
    )


def _optimizer(profile: Profile) -> Finding | None:
    share = profile.phases.get("optimizer", 0.0)
    grade = severity(share, OPTIMIZER_WARNING, OPTIMIZER_CRITICAL)
    optimizer = profile.seen.optimizer
    if not grade or optimizer is None:
        return None
    way = "fused" if optimizer.fused else "foreach" if optimizer.foreach else "torch's default"
    return Finding(
        bottleneck=Bottleneck.OPTIMIZER,
        severity=grade,
        evidence=f"{optimizer.name} ({way}) updates {_parameters(profile):,} parameters in "
        f"{milliseconds(share * profile.step_seconds)} a step.",
        max_gain=most_gain(share),
        headline=f"Updates weights {percent(share)} of each step; "
        f"a faster optimizer step {can_gain(most_gain(share))}.",
    )


def _overhead(profile: Profile) -> Finding | None:
    if profile.gpu is not None and profile.gpu.trace is not None:
        return launches_of_device(profile)
    share = _weight(profile, Bottleneck.COMPUTE)
    if profile.step_seconds >= TINY_STEP_SECONDS or share < MOSTLY:
        return None
    # Every weight multiplies and adds at least once a sample, forward and twice backward.
    least_rate = 6 * _parameters(profile) * profile.seen.samples_per_step / profile.step_seconds
    if profile.machine.device == "cpu" and least_rate > WORKING_RATE * profile.machine.cores:
        return None
    step = milliseconds(profile.step_seconds)
    return Finding(
        bottleneck=Bottleneck.OVERHEAD,
        severity="warning",
        evidence=f"{percent(share)} of a step of {step} is computing, on {_parameters(profile):,} "
        f"parameters and {profile.seen.samples_per_step:.0f} samples; {_cores(profile)}.",
        max_gain=None,
        headline=f"Takes {step} a step: small operations, most of whose time is spent on starting "
        "them.",
    )


def _memory(profile: Profile) -> Finding | None:
    memory = profile.memory
    if memory.peak_bytes is None or memory.capacity_bytes <= 0:
        return None
    share = memory.peak_bytes / memory.capacity_bytes
    grade = severity(share, SCARCE_MEMORY, MEMORY_CRITICAL)
    if not grade:
        return None
    sizes = f"{memory.peak_bytes / GIB:.1f} of {memory.capacity_bytes / GIB:.1f} GiB"
    what = "the memory limit" if memory.is_limit else "the device's memory"
    return Finding(
        bottleneck=Bottleneck.MEMORY,
        severity=grade,
        evidence=f"Peak {sizes}; parameters {memory.parameter_bytes / GIB:.1f} GiB, "
        f"optimizer state {memory.optimizer_bytes / GIB:.1f} GiB.",
        max_gain=None,
        headline=f"Fills {percent(share)} of {what} at its peak ({sizes}).",
    )


def _compute(profile: Profile) -> Finding:
    """Always found, so that a healthy program hears that it is."""
    share = _weight(profile, Bottleneck.COMPUTE)
    loader, gain, in_time, feeds = profile.ceiling("data"), most_gain(share), "", ""
    if loader and loader.max_gain is not None:
        gain = max(1.0, min(gain, loader.max_gain))
        if profile.phases.get("data", 0.0) < WAIT_WARNING and loader.max_gain >= NO_GAIN:
            in_time = "; its data arrives in time"
            feeds = f" The loader alone delivers {times(loader.max_gain)} what training takes."
    idle = f"; {profile.idle_gpu} is not used" if profile.idle_gpu else ""
    named = ((each, profile.phases[each]) for each in COMPUTING if each in profile.phases)
    phases = ", ".join(f"{name} {percent(part)}" for name, part in named).capitalize()
    return Finding(
        bottleneck=Bottleneck.COMPUTE,
        severity="info",
        evidence=f"{'; '.join(filter(None, (phases, _cores(profile))))}."
        f"{peak_evidence(profile)}{feeds}",
        max_gain=gain,
        headline=f"Computes {percent(share)} of each step{in_time}{idle}.",
    )


def _parameters(profile: Profile) -> int:
    models, optimizer = profile.seen.models, profile.seen.optimizer
    if not models and optimizer is not None:
        return optimizer.parameters
    return sum(model.parameters for model in models)


def _cores(profile: Profile) -> str:
    return f"{profile.processors_used:.1f} of {profile.machine.cores} cores are busy"


def _surely(profile: Profile, phase: str) -> float:
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


def _loader_at_work(profile: Profile) -> str:
    """What the loader does while the model waits: work, or wait itself."""
    busy, cores = profile.data_processor_share, profile.machine.cores
    if profile.seen.loader and profile.seen.loader.threaded:
        return "A thread of the program's own draws them, and does not keep up."
    if busy is None:
        return "What the loader does meanwhile was not measured."
    workers = profile.seen.loader.num_workers if profile.seen.loader else 0
    who = f"The loader, with {workers or 'no'} worker{'' if workers == 1 else 's'},"
    if busy >= ALL_CORES * cores and workers:
        return f"{who} keeps all {cores} cores busy."
    if busy >= WORKING_SHARE:
        return f"{who} keeps {busy:.1f} of {cores} cores busy: it decodes or transforms."
    if busy < WAITING_SHARE:
        return f"{who} uses {busy:.2f} of a core: it waits for slow reads."
    return f"{who} uses {busy:.2f} of a core: it works and waits by turns."


def _rates(profile: Profile) -> str:
    """What loader and model can do, each without the other."""
    named = (("data", "the loader alone delivers"), ("compute", "training alone takes"))
    parts = [
        f"{does} {rate(ceiling.samples_per_second)} samples/s"
        for name, does in named
        if (ceiling := profile.ceiling(name)) and ceiling.samples_per_second is not None
    ]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
