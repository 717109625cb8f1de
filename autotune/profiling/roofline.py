"""The throughput that the device's own limits leave, beside the ceilings that are measured."""

from autotune.machine import Machine
from autotune.profiling.gpu import GpuProfile
from autotune.profiling.peaks import Peak, peak_of
from autotune.profiling.profile import ROOFLINE, Ceiling
from autotune.workload.seen import Seen
from autotune.workload.window import FLOPS

_SPARSE = "of its embeddings a step moves the rows of its batch, and it is not known how many"
_FASTER = "the program is faster: most likely it does not move all of its weights in each step"
_ROUNDING = 1e-3


def roofline(seen: Seen, gpu: GpuProfile, machine: Machine, rate: float) -> Ceiling:
    """The throughput at the device's peak: no product is computed, and no weight moved, faster.

    A step reads each weight at least once. Of those that are trained it writes the gradient, and of
    those that the optimizer has the weight; each value of that one's state is read and written
    (Williams et al., 2009, Roofline: the slower of computing and moving).
    """
    peak = peak_of(machine.device_name)
    seconds = _least_seconds(seen, gpu, peak) if peak else None
    if any(model.sparse_gradients for model in seen.models):
        return _unknown(_SPARSE)
    if seconds is None or rate <= 0:
        return _unknown(gpu.missing.get("peak") or gpu.missing.get(FLOPS) or "not measured")
    if 1 / seconds < (1 - _ROUNDING) * rate:
        return _unknown(_FASTER)
    return Ceiling(name=ROOFLINE, samples_per_second=1 / seconds, max_gain=1 / seconds / rate)


def _unknown(reason: str) -> Ceiling:
    return Ceiling(name=ROOFLINE, samples_per_second=None, max_gain=None, reason=reason)


def _least_seconds(seen: Seen, gpu: GpuProfile, peak: Peak) -> float | None:
    """Seconds that a sample takes at least."""
    most = peak.flops_per_second.get(gpu.precision)
    if most is None or not gpu.flops_per_sample or seen.samples_per_step <= 0:
        return None
    frozen = sum(model.frozen_bytes for model in seen.models)
    trained = sum(model.parameter_bytes for model in seen.models) - frozen
    tables = sum(model.frozen_table_bytes for model in seen.models)
    written = min(trained, seen.optimizer.trained_bytes) if seen.optimizer else 0
    state = seen.optimizer.state_bytes if seen.optimizer else 0
    moved = frozen - tables + 2 * trained + written + 2 * state
    moving = moved / peak.bytes_per_second / seen.samples_per_step
    return max(gpu.flops_per_sample / most, moving)
