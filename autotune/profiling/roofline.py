"""The throughput that the device's own limits leave, beside the ceilings that are measured."""

from autotune.machine import Machine
from autotune.profiling.gpu import GpuProfile
from autotune.profiling.peaks import Peak, peak_of
from autotune.profiling.profile import ROOFLINE, Ceiling
from autotune.workload.seen import Seen
from autotune.workload.window import FLOPS


def roofline(seen: Seen, gpu: GpuProfile, machine: Machine, rate: float) -> Ceiling:
    """The throughput at the device's peak: no product is computed, and no weight moved, faster.

    A step reads and writes each weight and each value of the optimizer's state at least once, and a
    gradient once (Williams et al., 2009, Roofline: the slower of computing and moving).
    """
    peak = peak_of(machine.device_name)
    seconds = _least_seconds(seen, gpu, peak) if peak else None
    if seconds is None or rate <= 0:
        reason = gpu.missing.get("peak") or gpu.missing.get(FLOPS) or "not measured"
        return Ceiling(name=ROOFLINE, samples_per_second=None, max_gain=None, reason=reason)
    return Ceiling(name=ROOFLINE, samples_per_second=1 / seconds, max_gain=1 / seconds / rate)


def _least_seconds(seen: Seen, gpu: GpuProfile, peak: Peak) -> float | None:
    """Seconds that a sample takes at least."""
    most = peak.flops_per_second.get(gpu.precision)
    if most is None or not gpu.flops_per_sample or seen.samples_per_step <= 0:
        return None
    weights = sum(model.parameter_bytes for model in seen.models)
    state = seen.optimizer.state_bytes if seen.optimizer else 0
    moving = (3 * weights + 2 * state) / peak.bytes_per_second / seen.samples_per_step
    return max(gpu.flops_per_sample / most, moving)
