"""The number format of matrix products and convolutions: fp32, tf32, bf16 or fp16.

What it does
    tf32 shortens the factors of float32 products inside the GPU's tensor cores. bf16 and fp16 run
    forward and loss under `torch.autocast`; the weights stay float32, and on a CPU what the model
    gives is float32 again, so that a loss is not summed up in bf16. fp16 adds a `GradScaler`, since
    small gradients would vanish.

When it helps
    On GPUs with units for the format, when large products take the time: often 2x and more, and
    activations take half the memory. It is tried on a CPU only where the
    profile measured that bf16 is faster there.

What it costs
    Casting at every boundary, which small models do not earn back. fp16 skips a step whenever its
    scale overflows.

What it changes
    Rounding: 10 bits of mantissa (tf32, fp16) or 7 (bf16) instead of 23 in products. The loss curve
    must stay within its own noise, and is checked to.
"""

import math

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import NO_OPTIMIZER, gives_another, little_from_computing, on_cuda
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Autocast, Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Precision as Autocasting
from autotune.workload.setup import Setup

_FORMATS = {"bfloat16": "bf16", "float16": "fp16"}
_DTYPES = {name: dtype for dtype, name in _FORMATS.items()}
# NVIDIA Ampere, the first with tensor cores for tf32 and bf16.
_AMPERE = (8, 0)
# Volta, the first with tensor cores for fp16.
_VOLTA = (7, 0)

# What casting adds to launching, in logarithms: 1.05 times and 1.24 times what tf32 took where a
# Transformer's launches held it up (rivals-transformer-theirs in reports/h200).
_LAUNCHING = {"bf16": 0.05, "fp16": 0.2}

# What is expected of a whole model on a CPU, of what a product of large matrices gains there, in
# logarithms: small models cast more than they multiply.
_GAINED_ON_A_CPU = 0.15

MOSTLY = 0.5  # of the forward pass

# What torch's messages call the shorter formats, where one meets an operation without it; an
# operation that autocast refuses itself; weights of the program's own that a GradScaler refuses.
_SHORT = ("BFloat16", "Half", "unsafe to autocast", "unscale FP16 gradients")


def _is_called_in_parts(profile: Profile) -> str:
    """Why a run's autocast, which is put round calls of modules, would reach too little."""
    beside = sum(line.share for line in profile.lines if line.phase == "forward")
    if beside <= MOSTLY * profile.phases.get("forward", 0.0):
        return ""
    return (
        "most of the forward pass is computed in methods that are called by themselves, outside of "
        "a module's forward"
    )


class Precision(Knob):
    name = "precision"
    relieves = frozenset({Bottleneck.COMPUTE, Bottleneck.MEMORY})
    semantics = Semantics.EQUIVALENT
    admits = ("fp32", "tf32", "bf16", "fp16")

    def domain(self, profile: Profile) -> Choices | Skip:
        own, seen = self.read(profile.seen), profile.seen
        if seen.autocast:
            return Skip(
                reason=f"the program runs under autocast ({seen.autocast}) already", impossible=True
            )
        if seen.scaler:
            return Skip(
                reason="the program has a GradScaler of its own: parts of it may run in a shorter "
                "format already",
                impossible=True,
            )
        if own in _DTYPES:
            return Skip(
                reason=f"the model's weights are {_DTYPES[str(own)]} already", impossible=True
            )
        if seen.makes_own_gradients:
            reason = "the gradients come from no backward pass, up to which autocast would reach"
            return Skip(reason=reason, impossible=True)
        if seen.models and all(model.dtype == "float64" for model in seen.models):
            reason = "the model computes in float64, which autocast leaves as it is"
            return Skip(reason=reason, impossible=True)
        if not on_cuda(profile):
            return self._domain_on_a_cpu(profile)
        if reason := little_from_computing(profile):
            return Skip(reason=reason)
        values = [own, *(each for each in _offered_by_the_gpu(profile) if each != own)]
        if len(values) == 1:
            return Skip(
                reason=_why_no_fp16(profile)
                or "the GPU has no tensor cores for a shorter number format"
            )
        return Choices(own=own, values=tuple(values))

    def _domain_on_a_cpu(self, profile: Profile) -> Choices | Skip:
        speedup = profile.probes.get("bf16_speedup")
        if speedup is None:
            return Skip(reason="whether this CPU is faster in bf16 was not measured")
        if speedup <= 1:
            return Skip(
                reason=f"this CPU multiplies in bf16 at {speedup:.2f} times the speed of fp32"
            )
        if reason := little_from_computing(profile) or _is_called_in_parts(profile):
            return Skip(reason=reason)
        return Choices(own="fp32", values=("fp32", "bf16"))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        if not on_cuda(profile):
            speedup = profile.probes.get("bf16_speedup", 1.0) if value == "bf16" else 1.0
            gain = _GAINED_ON_A_CPU * math.log(speedup)
            return Expectation(phase="compute", log_mean=-gain, sd=0.3)
        gains = {"fp32": 0.0, "tf32": 0.3, "bf16": 0.5, "fp16": 0.5}
        launching = _LAUNCHING.get(str(value), 0.0)
        gain = gains[str(value)]
        return Expectation(phase="compute", log_mean=-gain, sd=0.4, launching=launching)

    def contradicted(self, value: Value, profile: Profile) -> str:
        formats = profile.again.formats if profile.again else {}
        reason = gives_another(formats.get(_DTYPES.get(str(value), "")))
        return reason and f"in {value} {reason}: part of it may need float32"

    def is_to_blame(self, reason: str) -> bool:
        return any(name in reason for name in _SHORT)

    def read(self, seen: Seen) -> Value:
        if seen.autocast:
            return _FORMATS.get(seen.autocast, "fp32")
        if seen.models and seen.models[0].dtype in _FORMATS:
            return _FORMATS[seen.models[0].dtype]
        return "tf32" if seen.device == "cuda" and seen.matmul_precision != "highest" else "fp32"

    def apply(self, setup: Setup, value: Value) -> None:
        import torch

        if value in _DTYPES:
            setup.precision = Autocasting(dtype=_DTYPES[str(value)], scaled=value == "fp16")
            return
        setup.precision = None
        matmul = "high" if value == "tf32" else "highest"
        setup.switch(lambda: torch.set_float32_matmul_precision(matmul))

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        if value not in _DTYPES:
            matmul = "high" if value == "tf32" else "highest"
            return (ProcessStatement(code=f'torch.set_float32_matmul_precision("{matmul}")'),)
        return (
            Autocast(device_type=seen.device, dtype=_DTYPES[str(value)], scaled=value == "fp16"),
        )


def _offered_by_the_gpu(profile: Profile) -> list[Value]:
    capability, seen = profile.machine.capability or (0, 0), profile.seen
    offered: list[Value] = []
    if capability >= _AMPERE:
        offered += ["tf32", "bf16"] if seen.cudnn_tf32 else ["bf16"]
    if capability >= _VOLTA and not _why_no_fp16(profile):
        offered.append("fp16")
    return offered


def _why_no_fp16(profile: Profile) -> str:
    """Why the GradScaler that fp16 needs does not fit the program, or ""."""
    capability, seen = profile.machine.capability or (0, 0), profile.seen
    if capability < _VOLTA:
        return ""
    if any(model.gradient_hooks for model in seen.models):
        return "fp16 scales the loss, and hooks on gradients would be given scaled ones"
    if seen.optimizer is not None and seen.optimizer.closure:
        return "fp16 leaves out steps, which its GradScaler cannot where one takes a closure"
    if not seen.optimizers:
        return f"fp16 needs a GradScaler and an optimizer, and {NO_OPTIMIZER}"
    if seen.optimizers != 1:
        return f"fp16 needs a GradScaler, which serves one optimizer here and not {seen.optimizers}"
    return ""
