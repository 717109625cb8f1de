"""What holds a program back on a GPU, by the device's own time line and its allocator.

Each of these says only what costs something here: a wait for the device that leaves it no less
busy, or a copy that kernels hide, is none.
"""

import os
from collections.abc import Sequence

from autotune.diagnosis.finding import (
    Bottleneck,
    Finding,
    can_gain,
    most_gain,
    percent,
    percent_or_less,
    severity,
    times,
)
from autotune.diagnosis.host import share_outside
from autotune.profiling.gpu import SyncPlace
from autotune.profiling.launching import launching_seconds
from autotune.profiling.memory_model import SCARCE_MEMORY, line_beyond, line_of
from autotune.profiling.profile import Profile
from autotune.profiling.trace import (
    COPY,
    DATA,
    LAUNCH,
    OTHER,
    PAGEABLE,
    SYNC,
    TO_DEVICE,
    Copies,
    Trace,
)
from autotune.workload.seen import NOTABLE_BYTES

# The share of a step in which the device is idle since the host had waited for it (Fournex).
SYNC_WARNING, SYNC_CRITICAL = 0.10, 0.25
# Below this the device is not busy; with kernels as short as this it waits for their launches
# (gpu-idle), unless the loader explains half of it.
BUSY, SHORT_KERNEL_SECONDS, EXPLAINED = 0.80, 25e-6, 0.5
# Copies to the device of which kernels hide less are not overlapped.
HIDDEN = 0.5
# Memory taken from the device over memory in use, where it is a notable part of all (TraceML).
FRAGMENTED, NOTABLE_MEMORY = 2.0, 0.30
_PLACES_SAID = 3
_GIB = 1 << 30


def exposed_copies(profile: Profile) -> float:
    """The share of a step in which the device only copied, or was idle since the host had waited
    for a copy to it; 0 where no trace was taken.
    """
    gpu = profile.gpu
    if gpu is None or gpu.trace is None:
        return 0.0
    copying = gpu.exposed_copy_share if _to_device(gpu.trace) else 0.0
    return copying + gpu.idle.get(COPY, 0.0)


def copy_evidence(profile: Profile) -> str:
    """How batches get to the device, as the trace shows it; "" without one."""
    trace = profile.gpu.trace if profile.gpu else None
    batches = _to_device(trace) if trace else []
    if trace is None or not batches:
        return ""
    told = [
        f"{each.bytes / trace.steps / 1e6:.1f} MB from {each.memory or 'unknown'} memory"
        for each in batches
    ]
    text = f"Each step copies {' and '.join(told)} to the device"
    if any(each.memory == PAGEABLE for each in batches):
        text += ", which makes the program wait"
    hidden = trace.hidden_share
    if hidden is not None:
        beside = f"kernels run beside {percent(hidden)} of it"
        text += f"; {beside}: it is not overlapped" if hidden < HIDDEN else f"; {beside}"
    return f"{text}.{_rates(profile, batches)}{_link(profile)}"


def syncs_of_device(profile: Profile) -> Finding | None:
    """The host waits for the device, and the device then for the host."""
    gpu = profile.gpu
    if gpu is None or gpu.trace is None:
        return None
    share = gpu.idle.get(SYNC, 0.0)
    grade = severity(share, SYNC_WARNING, SYNC_CRITICAL)
    if not grade:
        return None
    places = ", ".join(
        f"{os.path.basename(each.path)}:{each.line} ({each.per_step:.3g} a step)"
        for each in [each for each in gpu.syncs if not _is_copy(profile, each)][:_PLACES_SAID]
    )
    where = f": {places}" if places else "; torch did not say where"
    return Finding(
        bottleneck=Bottleneck.SYNC,
        severity=grade,
        evidence=f"The program waits for the device {gpu.trace.syncs_per_step:.3g} times a "
        f"step{where}. After such waits the device is out of work.",
        max_gain=most_gain(share),
        headline=f"Lets the device run dry {percent(share)} of each step by waiting for it; "
        f"waiting less {can_gain(most_gain(share))}.",
    )


def _is_copy(profile: Profile, sync: SyncPlace) -> bool:
    """Whether torch warned of the copy of a batch to the device, which is no wait for it here."""
    copies = profile.seen.places.batch_copies
    return any((at.path, at.line) == (sync.path, sync.line) for at in copies)


def launches_of_device(profile: Profile) -> Finding | None:
    """The host launches short kernels more slowly than the device runs them."""
    gpu = profile.gpu
    if gpu is None or gpu.trace is None or gpu.busy_share is None:
        return None
    trace, share, idle = gpu.trace, gpu.idle.get(LAUNCH, 0.0), sum(gpu.idle.values())
    short = trace.kernel_seconds is not None and trace.kernel_seconds <= SHORT_KERNEL_SECONDS
    if gpu.busy_share >= BUSY or not short or gpu.idle.get(DATA, 0.0) >= EXPLAINED * idle:
        return None
    # While the program runs code of its own between its steps, nothing is launched either.
    outside = share_outside(profile) - gpu.idle.get(SYNC, 0.0) - gpu.idle.get(OTHER, 0.0)
    share -= max(0.0, outside)
    if share < SYNC_WARNING:  # what it is idle for is something else
        return None
    return Finding(
        bottleneck=Bottleneck.OVERHEAD,
        severity="warning",
        evidence=f"The device runs {trace.kernels / trace.steps:.0f} kernels a step, of "
        f"{1e6 * (trace.kernel_seconds or 0.0):.3g} µs each, and is busy "
        f"{percent(gpu.busy_share)} of the time: the host launches them more slowly.",
        max_gain=most_gain(share),
        headline=f"Keeps the device waiting for launches {percent(share)} of each step; fewer, "
        f"larger kernels {can_gain(most_gain(share))}.",
    )


def small_parts_of_device(profile: Profile) -> Finding | None:
    """A step adds up gradients of several batches that leave the device idle, and larger ones would
    fit: the same training, unless layers look across the batch. Several backward passes on one
    batch are no such parts.
    """
    gpu, seen = profile.gpu, profile.seen
    parts, loader = seen.micro_batches, seen.loader
    whole = any(model.batch_norms for model in seen.models) or seen.optimizers != 1
    if gpu is None or gpu.busy_share is None or gpu.busy_share >= BUSY or parts < 2 or whole:
        return None
    size = loader.batch_size if loader else None
    line, growing = line_of(profile.memory, size or 0), line_beyond(profile)
    if not size or line is None or growing is None:
        return None
    if round(seen.samples_per_step / size) < parts:
        return None
    fitting = growing.largest(SCARCE_MEMORY * profile.memory.capacity_bytes) / size
    equal = (more for more in range(2, parts + 1) if parts % more == 0 and more <= fitting)
    larger = max(equal, default=1)
    if larger == 1:
        return None
    left = "one" if larger == parts else f"{parts // larger}"
    return Finding(
        bottleneck=Bottleneck.OVERHEAD,
        severity="info",
        evidence=f"A step adds up the gradients of {parts} batches of {size}, and the device is "
        f"busy {percent(gpu.busy_share)} of the time. A sample's activations take "
        f"{line.bytes_per_sample / _GIB:.2g} GiB: batches of {larger * size} "
        "would probably fit.",
        max_gain=None,
        headline=f"Trains {parts} small batches a step: {left} of {larger * size} would be the "
        "same training with the device busier, where the loss is a mean over samples, each of "
        "which has its part from itself alone.",
    )


def allocator_of_device(profile: Profile) -> Finding | None:
    """The allocator had to begin anew, or holds much more than is in use."""
    gpu, memory = profile.gpu, profile.memory
    if gpu is None:
        return None
    if gpu.allocator_retries:
        return Finding(
            bottleneck=Bottleneck.MEMORY,
            severity="warning",
            evidence=f"While it was timed, torch's allocator gave its cache back "
            f"{gpu.allocator_retries} time{'s' * (gpu.allocator_retries != 1)} to find room, for "
            "which the device is waited for.",
            max_gain=None,
            headline="Runs into the end of the device's memory, and goes on more slowly.",
        )
    reserved, peak = memory.reserved_bytes, memory.allocated_bytes or memory.peak_bytes
    if not reserved or not peak or reserved < NOTABLE_MEMORY * memory.capacity_bytes:
        return None
    if reserved < FRAGMENTED * peak:
        return None
    return Finding(
        bottleneck=Bottleneck.MEMORY,
        severity="info",
        evidence=f"torch's allocator holds {reserved / _GIB:.1f} GiB of the device for a peak of "
        f"{peak / _GIB:.1f} GiB: its free blocks may not fit what is asked for, or are left "
        f"over from what took more before.{_between(profile)}",
        max_gain=None,
        headline=f"Takes {times(reserved / peak)} the memory that it uses at most.",
    )


def _between(profile: Profile) -> str:
    """What lies free between blocks in use, which the allocator cannot give back; "" if unknown."""
    allocator = profile.gpu.allocator if profile.gpu else None
    free = allocator.inactive_split_bytes if allocator else None
    if free is None:
        return ""
    return f" After the last step that was timed, {free / _GIB:.1f} GiB lay between blocks in use."


def peak_evidence(profile: Profile) -> str:
    """How far below its peak a device computes; "" where that is unknown."""
    gpu = profile.gpu
    if gpu is None or gpu.mfu is None:
        return ""
    return f" It reaches {percent_or_less(gpu.mfu)} of the device's peak in {gpu.precision}."


def launching_evidence(profile: Profile) -> str:
    """That a busy device's launches would hold it up next, were it faster; "" where they would not,
    or nothing is known of it.
    """
    gpu, launching = profile.gpu, launching_seconds(profile)
    if gpu is None or gpu.trace is None or launching is None or (gpu.busy_share or 0.0) < BUSY:
        return ""
    step, kernels = profile.step_seconds, gpu.trace.kernels / gpu.trace.steps
    return (
        f" Launching its {kernels:.0f} kernels takes the host about {1e3 * launching:.3g} of a "
        f"step's {1e3 * step:.3g} ms: a faster device alone {can_gain(step / launching)}."
    )


def _to_device(trace: Trace) -> list[Copies]:
    return [
        each
        for each in trace.copies
        if each.direction == TO_DEVICE and each.largest_bytes >= NOTABLE_BYTES
    ]


def _rates(profile: Profile, batches: Sequence[Copies]) -> str:
    """How fast they are copied, and could be; "" where no device has timed it."""
    known = {each.memory: each.bytes_per_second for each in batches if each.bytes_per_second}
    if not known:
        return ""
    told = [
        f"{rate / 1e9:.1f} GB/s from {memory or 'unknown'} memory" for memory, rate in known.items()
    ]
    telemetry = profile.gpu.telemetry if profile.gpu else None
    link = telemetry.link_bytes_per_second if telemetry else None
    if link is None or max(known.values()) > link:  # it has another link, then
        return f" That goes at {' and '.join(told)}."
    shares = " and ".join(percent(rate / link) for rate in known.values())
    return (
        f" That goes at {' and '.join(told)}: {shares} of the {link / 1e9:.1f} GB/s that the "
        "device's PCIe link could carry."
    )


def _link(profile: Profile) -> str:
    """That the PCIe link is slower than it could be, where it is."""
    telemetry = profile.gpu.telemetry if profile.gpu else None
    if telemetry is None or telemetry.pcie_limit is None:
        return ""
    generation, width = telemetry.pcie_generation, telemetry.pcie_width
    if generation is None or width is None or (generation, width) == telemetry.pcie_limit:
        return ""
    limit = telemetry.pcie_limit
    return (
        f" The PCIe link runs at generation {generation} and width {width} of {limit[0]} and "
        f"{limit[1]}."
    )
