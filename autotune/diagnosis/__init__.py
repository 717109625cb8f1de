"""What holds the program back: bottlenecks, with their evidence and the most that fixing gains."""

import math
from dataclasses import replace

from autotune.diagnosis.checks import anomaly_detection, checking_share
from autotune.diagnosis.data import WAITING_SHARE, beside_the_wait, data
from autotune.diagnosis.denormals import denormal_numbers
from autotune.diagnosis.device import (
    allocator_of_device,
    copy_evidence,
    exposed_copies,
    launches_of_device,
    launching_evidence,
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
    severity,
    surely,
    times,
)
from autotune.diagnosis.host import busiest, own_python, share_outside
from autotune.diagnosis.largest import said_of_largest
from autotune.diagnosis.operations import (
    COMPUTING,
    MOSTLY,
    counted,
    of_small_operations,
    short_ones,
    started,
)
from autotune.diagnosis.threads import (
    crowd,
    one_thread,
    threads_in_the_way,
    waiting_share,
    with_threads_in_the_way,
)
from autotune.diagnosis.validation import validation, validation_share
from autotune.machine import CPU
from autotune.profiling.memory_model import SCARCE_MEMORY
from autotune.profiling.profile import Profile
from autotune.profiling.trace import LAUNCH, SYNC
from autotune.source.places import OPTIMIZERS
from autotune.workload.seen import SeenOptimizer

__all__ = ["Bottleneck", "Finding", "diagnose"]

# Shares of a step from which a phase is worth a warning, and critical.
OPTIMIZER_WARNING, OPTIMIZER_CRITICAL = 0.20, 0.40
# Peak over capacity (TraceML).
MEMORY_CRITICAL = 0.97

# The most that settings make of what a CPU computes is half as long, or so, where it has units for
# bf16; else a fifth less, or so. So a wait for data, or code of the program's own, that can go away
# holds it back more than computing does from that share on of what computing has.
CAN_GO_OF_COMPUTING, CAN_GO_WITHOUT_UNITS = 0.5, 0.2
RANKS = {"critical": 0, "warning": 1, "info": 2}
NOTABLE_LOADING = 0.03  # of a step, for a program without workers to hear what loading takes
# What is no phase of a step, or part of one.
_SHARES = {
    Bottleneck.VALIDATION: lambda profile: validation_share(profile).of_time,
    Bottleneck.HOST: share_outside,
    Bottleneck.CHECKS: checking_share,
    Bottleneck.THREADS: waiting_share,
}
BESIDE_COMPUTING = (Bottleneck.DATA, Bottleneck.HOST)
GIB = 1 << 30


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """The bottlenecks of `profile`, the one that holds it back most first; never empty."""
    looks = (
        *(
            validation,
            threads_in_the_way,
            anomaly_detection,
            denormal_numbers,
            data,
            _copy,
            syncs_of_device,
            own_python,
            _optimizer,
            _overhead,
        ),
        *(_memory, allocator_of_device, small_parts_of_device, _compute),
    )
    found = [finding for look in looks if (finding := look(profile)) is not None]
    found.sort(key=lambda each: (RANKS[each.severity], -_weight(profile, each.bottleneck)))
    return tuple(found if profile.machine.device != CPU else _with_computing(profile, found))


def _with_computing(profile: Profile, found: list[Finding]) -> list[Finding]:
    """`found` on a CPU, computing before the first of what holds it back less than that does, and
    telling of that.
    """
    kinds = [each.bottleneck for each in found]
    at = kinds.index(Bottleneck.OVERHEAD if Bottleneck.OVERHEAD in kinds else Bottleneck.COMPUTE)
    first = next((place for place in range(at) if _holds_less(profile, found[place])), None)
    if first is None:
        return found
    said = " of each step" if " of each step" in found[at].headline else ""
    also = found[first].headline.replace(said, "", 1)
    headline = f"{found[at].headline.rstrip('.')}; it also {also[0].lower()}{also[1:]}"
    computing = replace(found[at], headline=headline)
    return [*found[:first], computing, *found[first:at], *found[at + 1 :]]


def _holds_less(profile: Profile, finding: Finding) -> bool:
    """Whether this wait, or code of the program's own, holds it back less than computing does. A
    loader that waits itself leaves the processors to the rest.
    """
    if finding.bottleneck not in BESIDE_COMPUTING:
        return False
    asleep = (profile.data_processor_share or 1.0) < WAITING_SHARE
    if finding.bottleneck is Bottleneck.DATA and asleep:
        return False
    by_hand = finding.bottleneck is Bottleneck.HOST  # as computing's half is, without the units
    units = by_hand or profile.probes.get("bf16_speedup", math.inf) > 1
    part = CAN_GO_OF_COMPUTING if units else CAN_GO_WITHOUT_UNITS
    can_go = 1 - 1 / (finding.max_gain or most_gain(_weight(profile, finding.bottleneck)))
    return can_go < part * _weight(profile, Bottleneck.COMPUTE)


def _weight(profile: Profile, bottleneck: Bottleneck) -> float:
    """The share of a step that `bottleneck` is about; memory takes no time, denormal numbers do so
    later.
    """
    if bottleneck is Bottleneck.SYNC:
        return profile.gpu.idle.get(SYNC, 0.0) if profile.gpu else 0.0
    if bottleneck is Bottleneck.OVERHEAD and profile.gpu and profile.gpu.trace:
        return profile.gpu.idle.get(LAUNCH, 0.0)
    if bottleneck in _SHARES:
        return _SHARES[bottleneck](profile)
    names = {
        Bottleneck.DATA: ("data",),
        Bottleneck.COPY: ("copy",),
        Bottleneck.OPTIMIZER: ("optimizer",),
        Bottleneck.OVERHEAD: ("forward", "backward"),
        Bottleneck.COMPUTE: COMPUTING,
        Bottleneck.MEMORY: (),
        Bottleneck.DENORMALS: (),
    }[bottleneck]
    return sum(profile.phases.get(name, 0.0) for name in names)


def _copy(profile: Profile) -> Finding | None:
    exposed = exposed_copies(profile)
    grade = severity(max(surely(profile, "copy"), exposed), WAIT_WARNING, WAIT_CRITICAL)
    if not grade:
        return None
    seen, share = profile.seen, max(profile.phases.get("copy", 0.0), exposed)
    gain = most_gain(share)
    compute = profile.ceiling("compute")
    if compute and compute.max_gain is not None:
        gain = max(1.0, min(gain, compute.max_gain))
    memory = "pinned" if seen.loader and seen.loader.pin_memory else "pageable"
    source = f" from {memory} memory" if seen.loader else ""  # a program may pin its batches itself
    return Finding(
        bottleneck=Bottleneck.COPY,
        severity=grade if gain >= NO_GAIN else "info",
        evidence=copy_evidence(profile)
        or f"Each batch of {seen.batch_bytes / 1e6:.1f} MB is copied{source}, "
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
    # Of a class of the program's own nothing can be turned: it is named where it takes most.
    own = optimizer.name not in OPTIMIZERS and not optimizer.takes_foreach
    return Finding(
        bottleneck=Bottleneck.OPTIMIZER,
        severity="info" if own and share < OPTIMIZER_CRITICAL else grade,
        evidence=f"{_updated(optimizer, *profile.seen.beside)}.",
        max_gain=most_gain(share),
        headline=f"Updates weights {percent(share)} of each step"
        f"{with_threads_in_the_way(profile)}; "
        f"a faster optimizer step {can_gain(most_gain(share))}.",
    )


def _updated(*optimizers: SeenOptimizer) -> str:
    """How many parameters they update, those that run alike as one."""
    counts: dict[str, int] = {}
    for each in optimizers:
        name = f"{each.name}{_way(each)}"
        counts[name] = counts.get(name, 0) + (each.updated or each.parameters)
    (first, count), *others = counts.items()
    more = "".join(f", {name} {parameters:,}" for name, parameters in others)
    return f"{first} updates {count:,} parameters{more}"


def _way(optimizer: SeenOptimizer) -> str:
    """Which of its implementations `optimizer` takes, in brackets; "" where it has but one."""
    if optimizer.fused or optimizer.foreach:
        return " (fused)" if optimizer.fused else " (foreach)"
    if not (optimizer.takes_foreach and optimizer.name in OPTIMIZERS):
        return ""
    return " (as torch runs it unasked)" if optimizer.foreach is None else " (forloop)"


def _overhead(profile: Profile) -> Finding | None:
    if profile.gpu is not None:
        return launches_of_device(profile)
    share = _weight(profile, Bottleneck.COMPUTE)
    if share < MOSTLY or not of_small_operations(profile):
        return None
    return Finding(
        bottleneck=Bottleneck.OVERHEAD,
        severity="warning",
        evidence=f"{_cores(profile)}.{one_thread(profile)}",
        max_gain=None,
        headline=f"Takes {milliseconds(profile.step_seconds)} a step: {counted(profile)}small "
        "operations, much of whose time is "
        f"spent on starting them{started(profile)}.",
    )


def _memory(profile: Profile) -> Finding | None:
    memory = profile.memory
    most = memory.most_bytes
    if most is None or memory.capacity_bytes <= 0:
        return None
    share = most / memory.capacity_bytes
    grade = severity(share, SCARCE_MEMORY, MEMORY_CRITICAL)
    if not grade:
        return None
    sizes = f"{most / GIB:.1f} of {memory.capacity_bytes / GIB:.1f} GiB"
    told = said_of_largest(memory)
    at = "on the largest batch of its data" if most != memory.peak_bytes else "at its peak"
    whose = "machine" if profile.machine.device == CPU else "device"
    what = "the memory limit" if memory.is_limit else f"the {whose}'s memory"
    return Finding(
        bottleneck=Bottleneck.MEMORY,
        severity=grade,
        evidence=f"Peak {sizes}; parameters {memory.parameter_bytes / GIB:.1f} GiB, "
        f"optimizer state {memory.optimizer_bytes / GIB:.1f} GiB.{told and f' {told}'}",
        max_gain=None,
        headline=f"Fills {percent(share)} of {what} {at} ({sizes}).",
    )


def _compute(profile: Profile) -> Finding:
    """Always found, so that a healthy program hears that it is."""
    share = _weight(profile, Bottleneck.COMPUTE)
    loader, in_time, feeds = profile.ceiling("data"), "", ""
    feeding = loader.max_gain if loader else None
    waits = profile.phases.get("data", 0.0) >= WAIT_WARNING
    if feeding is not None and feeding >= NO_GAIN and not waits:
        in_time = _loading(profile)
        feeds = f" The loader alone delivers {times(feeding)} what training takes."
    idle = f"; {profile.idle_gpu} is not used" if profile.idle_gpu else ""
    named = ((each, profile.phases[each]) for each in COMPUTING if each in profile.phases)
    phases = ", ".join(f"{name} {percent(part)}" for name, part in named).capitalize()
    return Finding(
        bottleneck=Bottleneck.COMPUTE,
        severity="info",
        evidence=f"{'; '.join(filter(None, (phases, _cores(profile))))}."
        f"{one_thread(profile)}{peak_evidence(profile)}{launching_evidence(profile)}"
        f"{feeds}{beside_the_wait(profile)}",
        max_gain=None,  # nobody computes in no time
        headline=f"Computes {percent(share)} of each step{busiest(profile, 'forward')}"
        f"{short_ones(profile)}{crowd(profile)}{in_time}{idle}.",
    )


def _loading(profile: Profile) -> str:
    """That what little time loading takes is no bottleneck."""
    loader, share = profile.seen.loader, profile.phases.get("data", 0.0)
    if loader is None or loader.num_workers or share < NOTABLE_LOADING:
        return "; its data arrives in time"
    return f"; loading takes {percent(share)}"


def _cores(profile: Profile) -> str:
    """How many are busy with it, besides those of its loader's workers."""
    loader = profile.seen.loader
    workers = profile.machine.device == CPU and loader is not None and loader.num_workers > 0
    beside = " with it, beside its loader's workers" if workers else ""
    return f"{profile.processors_used:.1f} of {profile.machine.cores} cores are busy{beside}"
