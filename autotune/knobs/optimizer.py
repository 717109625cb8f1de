"""Which implementation of the optimizer runs: a loop over the parameters, batched operations, or
one fused kernel.

What it does
    Builds the optimizer with `foreach=True` or `fused=True`. Left to itself, torch takes the loop
    on a CPU and `foreach` on a GPU.

When it helps
    When the optimizer takes a good part of a step, as with many small parameters: fused AdamW was
    1.77x where the optimizer was half of it, and nothing where it was not.

What it costs
    `foreach` keeps a temporary copy of the parameters' size. `fused` exists for the common
    optimizers only.

What it changes
    Rounding of the update.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import NO_OPTIMIZER, little_from_stepping
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import THAWS, Profile
from autotune.source.edits import Edit, OptimizerArgument
from autotune.workload.seen import Seen, SeenOptimizer
from autotune.workload.setup import Setup

# What torch says of gradients and settings that an implementation does not take.
_REFUSED = (
    "does not support sparse grad",
    "`fused=True` requires all the params to be floating point",
    "as a Tensor is not supported for capturable=False and foreach=True",
)


# On a CPU torch 2.13 goes through both as they lie, without a word.
_OTHERWISE = (
    "some gradients lie in memory otherwise than their weights (as those that a program "
    "sets itself, or of weights that were transposed): a fused optimizer mixes up which is whose"
)
_COMPLEX = "some of its weights are complex numbers, which none that is fused takes"
_SPARSE = "some of its weights have sparse gradients, which none that is fused takes"
_FAILS = (
    "torch's fused SGD fails in a step in which some weights have a momentum and others have none "
    "yet"
)
_THAWED_LATER = f"by its source weights are thawed later: {_FAILS}"


def _strides_differ(seen: Seen) -> bool:
    optimizers = (seen.optimizer, *seen.beside)
    return any(each is not None and each.strides_differ for each in optimizers)


def _fails_later(optimizer: SeenOptimizer, profile: Profile) -> str:
    """Why a step to come may fail with it fused, "" where none is known to."""
    if optimizer.complex_weights:
        return _COMPLEX
    if optimizer.sparse_weights:
        return _SPARSE
    if optimizer.name != "SGD" or not optimizer.state_bytes:
        return ""
    if THAWS in {each.name for each in profile.doubts}:
        return _THAWED_LATER
    if number := optimizer.without_state:
        weights = "1 weight has" if number == 1 else f"{number} weights have"
        return f"{weights} no momentum so far, and may come to have one: {_FAILS}"
    return ""


class Optimizer(Knob):
    name = "optimizer"
    relieves = frozenset({Bottleneck.OPTIMIZER, Bottleneck.OVERHEAD})
    semantics = Semantics.EQUIVALENT
    admits = ("forloop", "foreach", "fused")

    def domain(self, profile: Profile) -> Choices | Skip:
        optimizer, own = profile.seen.optimizer, self.read(profile.seen)
        if optimizer is None:
            return Skip(reason=NO_OPTIMIZER, impossible=True)
        if not optimizer.takes_fused and not optimizer.takes_foreach:
            reason = f"{optimizer.name} takes neither fused nor foreach as it is built"
            return Skip(reason=f"{reason}{_left_alone(profile.seen)}", impossible=True)
        if own == "fused":
            return Skip(reason=f"{optimizer.name} is fused already{_left_alone(profile.seen)}")
        if reason := little_from_stepping(profile):
            return Skip(reason=reason)
        values = [own]
        if optimizer.takes_foreach and own != "foreach":
            values.append("foreach")
        if optimizer.takes_fused:
            values.append("fused")
        if len(values) == 1:
            return Skip(
                reason=f"{optimizer.name} runs batched already, and has no fused implementation"
            )
        return Choices(own=own, values=tuple(values))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # Fused AdamW made a step 1.77x as fast where the optimizer was half of it.
        gains = {"forloop": 0.0, "foreach": 0.4, "fused": 0.9}
        return Expectation(phase="optimizer", log_mean=-gains[str(value)], sd=0.5)

    def is_to_blame(self, reason: str) -> bool:
        return any(words in reason for words in _REFUSED)

    def read(self, seen: Seen) -> Value:
        optimizer = seen.optimizer
        if optimizer is None or not (optimizer.takes_foreach or optimizer.takes_fused):
            return "forloop"
        if optimizer.fused:
            return "fused"
        by_torch = optimizer.fused is None and optimizer.foreach is None and optimizer.takes_foreach
        on_gpu = seen.device == "cuda"
        return "foreach" if optimizer.foreach or (by_torch and on_gpu) else "forloop"

    def contradicted(self, value: Value, profile: Profile) -> str:
        if value != "fused":
            return ""
        if profile.seen.optimizer and (reason := _fails_later(profile.seen.optimizer, profile)):
            return reason
        return _OTHERWISE if _strides_differ(profile.seen) else ""

    def is_another(self, value: Value, seen: Seen) -> str:
        return f"optimizer: {_OTHERWISE}" if value == "fused" and _strides_differ(seen) else ""

    def doubted(self, seen: Seen) -> str:
        return _OTHERWISE if self.read(seen) == "fused" and _strides_differ(seen) else ""

    def apply(self, setup: Setup, value: Value) -> None:
        setup.optimizer.pop("fused", None)
        setup.optimizer["foreach"] = value == "foreach"
        if value == "fused":
            setup.optimizer["fused"] = True

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        if value != "fused":
            return (OptimizerArgument(name="foreach", code=str(value == "foreach")),)
        fused = OptimizerArgument(name="fused", code="True")
        if seen.optimizer is not None and seen.optimizer.foreach:  # torch refuses both at once
            return (fused, OptimizerArgument(name="foreach", code="False"))
        return (fused,)


def _left_alone(seen: Seen) -> str:
    """That others than the leading optimizer could be set, which are not: "" where there are none,
    or what they could be they are.
    """
    others = (each for each in seen.beside if each.takes_fused and not each.fused)
    names = dict.fromkeys(each.name for each in others)
    if not names:
        return ""
    which = "which step" if len(names) > 1 else "which steps"
    return f" ({' and '.join(names)}, {which} beside it, is not set by itself)"
