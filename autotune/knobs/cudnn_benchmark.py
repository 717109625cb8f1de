"""cuDNN times its convolution algorithms and keeps the fastest.

What it does
    Sets `torch.backends.cudnn.benchmark`: the first call with each shape tries every algorithm.

When it helps
    On a GPU, for convolutions whose inputs keep to a few shapes.

What it costs
    A slow first step for every new shape, and workspace memory. With ever new shapes it costs more
    than it gains.

What it changes
    Another algorithm rounds differently, and the choice can differ from run to run.
"""

import functools

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import little_from_computing, on_cuda
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

# Distinct input shapes up to which trying every algorithm pays off: a batch, the last batch, and
# validation's two.
_MOST_SHAPES = 4


def _convolves(profile: Profile) -> bool:
    """Whether some model has convolutions, or a step was seen to do some, by functions too."""
    counted = profile.gpu.convolution_share if profile.gpu else None
    return bool(counted) or any(model.convolves for model in profile.seen.models)


class CudnnBenchmark(Knob):
    name = "cudnn_benchmark"
    relieves = frozenset({Bottleneck.COMPUTE})
    semantics = Semantics.EQUIVALENT
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        seen = profile.seen
        if not on_cuda(profile):
            return Skip(reason="cuDNN runs on NVIDIA GPUs only", impossible=True)
        if not _convolves(profile):
            return Skip(reason="no convolutions were seen")
        if seen.deterministic:
            return Skip(reason="the program asks for deterministic algorithms", impossible=True)
        if seen.shapes > _MOST_SHAPES and not seen.cudnn_benchmark:
            return Skip(
                reason=f"inputs came in {seen.shapes} shapes: each new one would be timed anew"
            )
        if seen.shapes <= _MOST_SHAPES and seen.cudnn_benchmark:
            return Skip(reason="the program has it on already, and its inputs keep to few shapes")
        if reason := little_from_computing(profile):
            return Skip(reason=reason)
        return Choices(own=self.read(seen), values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        return Expectation(phase="compute", log_mean=-0.1 if value else 0.0, sd=0.15)

    def read(self, seen: Seen) -> Value:
        return seen.cudnn_benchmark

    def apply(self, setup: Setup, value: Value) -> None:
        from torch.backends import cudnn

        setup.switch(functools.partial(setattr, cudnn, "benchmark", bool(value)))

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (ProcessStatement(code=f"torch.backends.cudnn.benchmark = {value}"),)
