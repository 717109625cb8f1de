"""What only a GPU's profile has: how busy the device was, what it waited for, how far below its
peak it ran.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.machine import Machine
from autotune.profiling.peaks import peak_of, precision_of
from autotune.profiling.telemetry import Telemetry, joules_per_sample
from autotune.profiling.trace import DATA, Trace
from autotune.workload.found import SavedBlock
from autotune.workload.seen import Seen
from autotune.workload.window import FLOPS, TRACE, Allocator, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlace:
    """A line of the program at which the host waits for the device."""

    path: str
    line: int
    per_step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """What was found out in steps that were not timed; None where it was not, with the reason in
    `missing` by the mode's name.

    `convolution_share` is what convolutions do of the floating point operations,
    `activation_bytes` the most that lay between forward and backward, `gradient_bytes` what
    gradients took after a step, `blocks` what recomputing each repeated block would free and cost.
    """

    trace: Trace | None = None
    syncs: tuple[SyncPlace, ...] = ()
    flops_per_step: float | None = None
    convolution_share: float | None = None
    activation_bytes: int | None = None
    gradient_bytes: int | None = None
    blocks: tuple[SavedBlock, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProfile:
    """The device while the program ran as it is; None is "not measured".

    Attributes:
        busy_share: of a step as it was timed, the time in which some kernel ran. The time is from
            the trace, which kernels are as long in as without it; the step's length is not.
        idle: the share of a timed step in which the device did nothing, by cause, see `Trace.idle`;
            of waiting for data at least what it took of the timed steps.
        exposed_copy_share: of a timed step, the time in which the device only copied from the host.
        precision: the fastest that the program allows to what does most of its operations: "fp32",
            "tf32", "bf16", "fp16", or "fp64", of which no peak is known here.
        flops_per_sample: counted floating point operations of products and convolutions.
        convolution_share: what convolutions do of these.
        mfu: those a second, as a share of the device's peak in `precision`.
        joules_per_sample: energy of the board, all of it; unknown where others computed on it
            too, or the program on several.
        telemetry: what the device said of itself meanwhile.
        trace: of a few steps that were not timed.
        syncs: lines that wait for the device, the most frequent first.
        allocator: torch's, when the timing was over.
        allocator_retries: how often it gave its cache back while the program was timed.
        missing: what could not be found out, with the reason.
    """

    busy_share: float | None = None
    idle: Mapping[str, float] = field(default_factory=dict)
    exposed_copy_share: float = 0.0
    precision: str = "fp32"
    flops_per_sample: float | None = None
    convolution_share: float | None = None
    mfu: float | None = None
    joules_per_sample: float | None = None
    telemetry: Telemetry | None = None
    trace: Trace | None = None
    syncs: tuple[SyncPlace, ...] = ()
    allocator: Allocator | None = None
    allocator_retries: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


def build_gpu(
    *,
    machine: Machine,
    seen: Seen,
    looks: Looks,
    telemetry: Telemetry | None,
    windows: Sequence[Window],
    warm: Sequence[Window] = (),
    data_share: float = 0.0,
) -> GpuProfile:
    """The GpuProfile of a run: by looks beside its timing, by what the device said during that, and
    by `windows` of the program as it is, before which there were `warm` ones. `data_share` of a
    step went by in waiting for data.
    """
    seconds = sum(window.seconds for window in windows)
    steps = sum(window.steps for window in windows)
    samples = sum(window.samples for window in windows)
    gpus = max(seen.gpus, looks.trace.gpus if looks.trace else 1)
    looks = looks if gpus == 1 else _of_several(looks, gpus)
    peak = peak_of(machine.device_name)
    precision = precision_of(seen, machine, looks.convolution_share)
    most = peak.flops_per_second.get(precision) if peak else None
    flops = looks.flops_per_step * steps / samples if looks.flops_per_step and samples else None
    missing = dict(looks.missing)
    if most is None:
        missing["peak"] = f"no published peak of {machine.device_name} in {precision} is known here"
    states = [window.allocator for window in windows if window.allocator]
    found = GpuProfile(
        precision=precision,
        flops_per_sample=flops,
        convolution_share=looks.convolution_share,
        mfu=flops * samples / seconds / most if flops and most and seconds else None,
        joules_per_sample=joules_per_sample(telemetry, windows) if gpus == 1 else None,
        telemetry=telemetry,
        trace=looks.trace,
        syncs=looks.syncs,
        allocator=states[-1] if states else None,
        allocator_retries=retries_within(windows, warm),
        missing=missing,
    )
    return _with_shares(found, seconds / steps, data_share) if looks.trace and steps else found


def _of_several(looks: Looks, gpus: int) -> Looks:
    """Without what would hold the work of several devices against the time and the peak of one."""
    reason = f"the program computes on {gpus} GPUs"
    missing = {**looks.missing, TRACE: reason, FLOPS: reason}
    return replace(looks, trace=None, flops_per_step=None, convolution_share=None, missing=missing)


def retries_within(windows: Sequence[Window], before: Sequence[Window]) -> int | None:
    """How often the allocator gave its cache back in `windows`, by what it said in the last of
    those `before`; None where it does not say.
    """
    states = [window.allocator for window in (*before[-1:], *windows) if window.allocator]
    known = [state.retries for state in states if state.retries is not None]
    return known[-1] - known[0] if known else None


def _with_shares(gpu: GpuProfile, step_seconds: float, data_share: float) -> GpuProfile:
    """With the trace's shares as those of a step that was timed: the profiler makes the host late,
    not the device.
    """
    trace = gpu.trace
    assert trace is not None
    scale = trace.seconds / max(trace.steps, 1) / step_seconds
    busy = min(1.0, trace.busy_share * scale)
    copying = min(1.0 - busy, trace.exposed_copy_share * scale)
    at_work = min(1.0, busy + copying + trace.other_copy_share * scale)
    idle = _by_cause(trace.idle, 1.0 - at_work, data_share)
    return replace(gpu, busy_share=busy, idle=idle, exposed_copy_share=copying)


def _by_cause(traced: Mapping[str, float], idle: float, data: float) -> dict[str, float]:
    """`idle` by the causes that the trace found, and `data` of it at least by waiting for data.

    Before the few steps of a trace the loader's workers had time to fill their queue: what waiting
    for them costs, only the timed steps say.
    """
    whole = sum(traced.values())
    others = sum(share for cause, share in traced.items() if cause != DATA)
    by_trace = idle * traced.get(DATA, 0.0) / whole if whole else 0.0
    waited = min(idle, max(data, by_trace))
    left = (idle - waited) / others if others else 0.0
    return {cause: share * left for cause, share in traced.items()} | {DATA: waited}
