"""torch.compile: the model's operations fused into kernels made for it.

What it does
    Calls `model.compile(dynamic=False)` in place; `reduce-overhead` also records each step's
    kernels as one CUDA graph, and `max-autotune` besides times several kernels for each matrix
    product.

When it helps
    For models of many small operations, whose launching or memory traffic takes the time, when
    training is long enough to earn the compiling back.

What it costs
    21 to 68 s of compiling where it was measured, for 0.68x to 1.30x on a CPU; more on every new
    input shape, and once more where the model is evaluated; `max-autotune` takes minutes. Graphs
    keep memory of their own, and are replayed for the shape that they were recorded with: they are
    not offered where shapes change. Each replay overwrites what the last one gave: nor are they
    where the program keeps that.

What it changes
    Rounding, and the random numbers of dropout. Casts to a shorter format and back round nothing:
    where the program has some, it is refused.
"""

from statistics import fmean
from typing import TYPE_CHECKING

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import little_from_computing, models_pass, on_cuda
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ModelStatement
from autotune.workload.seen import Seen, SeenModel
from autotune.workload.setup import Setup

if TYPE_CHECKING:
    from torch import nn

# Seconds of compiling with empty caches: 21 to 68 on two CPU cores, for models from an MLP to a
# small GPT.
_COLD_COMPILE_SECONDS = (21, 68)
# On an A100, for the three models that pytorch-autotune 2.0.0 was measured on (its `tuner.py`).
_SECONDS_ON_CUDA = {"default": (1, 50), "reduce-overhead": (12, 40), "max-autotune": (60, 212)}
# Modes that record CUDA graphs.
_GRAPHS = ("reduce-overhead", "max-autotune")
# What it does to launching, in logarithms. Where launches held a Transformer up, `default` took
# 0.83 to 0.89 of the time, and graphs at most 0.27 to 0.37, the device's own (pytorch-autotune
# 2.0.0 on an H200: rivals-transformer-theirs in reports/h200).
_LAUNCHING = {"off": 0.0, "default": -0.15, "reduce-overhead": -1.5, "max-autotune": -1.5}
# Distinct input shapes: the batch and an incomplete last one. Every other shape would be compiled
# anew.
_MOST_SHAPES = 2

# What torch refuses a compiled model to: TensorBoard's writers trace it for `add_graph`.
_HINDERED = ("torch.jit.trace", "torch.jit.trace_module", "torch.onnx.export", "add_graph")
# How the names of exceptions begin that compiling raises, and what is said of CUDA graphs' own.
_COMPILERS = ("torch._dynamo.", "torch._inductor.")
_OVERWRITTEN = "of CUDAGraphs that has been overwritten"


class Compile(Knob):
    name = "compile"
    relieves = frozenset({Bottleneck.COMPUTE, Bottleneck.OVERHEAD})
    semantics = Semantics.EQUIVALENT
    admits = ("off", "default", *_GRAPHS)

    def domain(self, profile: Profile) -> Choices | Skip:
        seen = profile.seen
        if not seen.models:
            return Skip(
                reason="no module was seen to be called as model(x) in training", impossible=True
            )
        if reason := models_pass(profile):
            return Skip(reason=reason, impossible=True)
        if self.read(seen) != "off":
            return Skip(
                reason=f"the model is compiled already ({self.read(seen)})", impossible=True
            )
        if reason := _passed_over(seen.models[0]):
            return Skip(reason=reason, impossible=True)
        if not profile.machine.compiler:
            language = "C" if on_cuda(profile) else "C++"
            return Skip(
                reason=f"it needs a {language} compiler, and none was found", impossible=True
            )
        if seen.shapes > _MOST_SHAPES:
            reason = (
                f"inputs came in {seen.shapes} shapes or more, and compile is tried for fixed ones "
                "only"
            )
            return Skip(reason=reason)
        if seen.calls > _MOST_SHAPES:
            return Skip(
                reason="the numbers that the model is called with change, as a step's own does: "
                "each would be compiled anew"
            )
        if reason := little_from_computing(profile):
            return Skip(reason=reason)
        # CUDA graphs are all that reduce-overhead adds: on a CPU it is the same as default.
        replayed = _keeps_to_a_shape(seen) and not seen.keeps_outputs
        graphs = _GRAPHS if on_cuda(profile) and replayed else ()
        return Choices(own="off", values=("off", "default", *graphs))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # 0.68x to 1.30x on CPUs; on a GPU it fuses what would be launched one by one.
        if not on_cuda(profile):
            return Expectation(phase="compute", sd=0.2)
        gain, launching = 0.2 if value != "off" else 0.0, _LAUNCHING[str(value)]
        return Expectation(phase="compute", log_mean=-gain, sd=0.2, launching=launching)

    def delay_seconds(self, value: Value, profile: Profile) -> float:
        if value == "off":
            return 0.0
        if on_cuda(profile) or value == "max-autotune":
            return fmean(_SECONDS_ON_CUDA[str(value)])
        return fmean(_COLD_COMPILE_SECONDS)

    def is_to_blame(self, reason: str) -> bool:
        return reason.startswith(_COMPILERS) or _OVERWRITTEN in reason

    def read(self, seen: Seen) -> Value:
        return seen.models[0].compiled if seen.models else "off"

    def apply(self, setup: Setup, value: Value) -> None:
        def compile_in_place(model: "nn.Module") -> None:
            # Else torch compiles for any size at the first short batch, and that code runs for the
            # full ones too from then on: not what was timed before it.
            model.compile(mode=str(value), dynamic=False)

        if value != "off":
            setup.model.append(compile_in_place)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        if value == "off":
            return ()
        mode = "" if value == "default" else f'mode="{value}", '
        of = seen.models[0].name if seen.models else ""
        return (
            ModelStatement(
                code=f"{{model}}.compile({mode}dynamic=False)",
                of=of,
                hinders=_HINDERED,
                undone="{model}._compiled_call_impl = None",
                replayed=value in _GRAPHS,
                compiled=True,
            ),
        )


def _passed_over(model: SeenModel) -> str:
    """Why compiling in place would do nothing to `model`; "" where it would."""
    if model.scripted:
        return (
            f"TorchScript runs the {model.name} that training calls, which compiling in place "
            "passes over"
        )
    if model.of_torch:
        return (
            f"the forward pass of {model.name}, which training was seen to call first, is torch's "
            "own code: compiling in place passes that over"
        )
    return ""


def _keeps_to_a_shape(seen: Seen) -> bool:
    """Whether every batch has the same shape, but for an incomplete last one."""
    if seen.shapes == 1:
        return True
    loader = seen.loader
    if loader is None or loader.drop_last or not loader.batch_size or not loader.dataset_length:
        return False
    return seen.shapes == _MOST_SHAPES and loader.dataset_length % loader.batch_size != 0
