"""Convolution weights and images stored with their channels last in memory.

What it does
    Converts the model's 4-dimensional weights in place with
    `model.to(memory_format=torch.channels_last)`. The activations follow from the first convolution
    on.

When it helps
    For convolutional networks: 1.24x to 1.36x on the CPUs it was measured on, and on GPUs mostly
    together with bf16 or fp16, whose tensor cores want this order.

What it costs
    A conversion of the first input in every step. Layers that know only the usual order convert
    back and forth.

What it changes
    Rounding, and which elements dropout zeroes. Weights that are saved and loaded are the same;
    safetensors refuses to save them: where a program does so, this is left out.
"""

from typing import TYPE_CHECKING

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import gives_another, little_from_computing, models_pass
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ModelStatement
from autotune.workload.program.framework import TRANSFORMERS, framework_of
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

if TYPE_CHECKING:
    from torch import nn


# What torch says where a model's own `.view(...)` needs the usual order.
_NOT_TO_BE_VIEWED = "view size is not compatible with input tensor's size and stride"
# And where a model moves other tensors along with its weights.
_OF_FOUR_DIMENSIONS = "required rank 4 tensor to use channels_last format"


class ChannelsLast(Knob):
    name = "channels_last"
    relieves = frozenset({Bottleneck.COMPUTE})
    semantics = Semantics.EQUIVALENT
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if not any(model.convolutions for model in profile.seen.models):
            reason = "the model has no nn.Conv2d whose weights could be stored so"
            return Skip(reason=reason, impossible=True)
        if reason := models_pass(profile):
            return Skip(reason=reason, impossible=True)
        if all(model.channels_last is None for model in profile.seen.models):
            reason = "the weights of each nn.Conv2d are the same in both orders"
            return Skip(reason=reason, impossible=True)
        if self.read(profile.seen):
            return Skip(reason="the model lies channels last already")
        if any(model.five_dimensional for model in profile.seen.models):
            reason = (
                "a model has tensors of five dimensions, which torch does not convert to this "
                "order (channels_last_3d is theirs)"
            )
            return Skip(reason=reason, impossible=True)
        if any(model.weights_elsewhere for model in profile.seen.models):
            reason = (
                "weights of four dimensions have their memory with other tensors or processes: "
                "another order would cut them loose from those"
            )
            return Skip(reason=reason, impossible=True)
        saves_itself = all(model.pretrained for model in profile.seen.models)
        if framework_of(profile.seen.places) == TRANSFORMERS and not saves_itself:
            reason = (
                "Hugging Face's Trainer saves a model, unless it is told otherwise, with "
                "safetensors, which refuses weights in another order"
            )
            return Skip(reason=reason, impossible=True)
        if reason := little_from_computing(profile):
            return Skip(reason=reason)
        return Choices(own=False, values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # Convolutional networks ran 1.24x to 1.36x as fast on CPUs.
        return Expectation(phase="compute", log_mean=-0.2 if value else 0.0, sd=0.15)

    def contradicted(self, value: Value, profile: Profile) -> str:
        found = profile.again.channels_last if profile.again and value else None
        reason = gives_another(found)
        return reason and f"{reason}: code of its own may go by the order in memory"

    def is_to_blame(self, reason: str) -> bool:
        return _NOT_TO_BE_VIEWED in reason or _OF_FOUR_DIMENSIONS in reason

    def read(self, seen: Seen) -> Value:
        told = [each.channels_last for each in seen.models if each.channels_last is not None]
        return bool(told) and all(told)

    def apply(self, setup: Setup, value: Value) -> None:
        def convert(model: "nn.Module") -> None:
            import torch

            model.to(memory_format=torch.channels_last if value else torch.contiguous_format)  # type: ignore[call-overload]

        setup.model.append(convert)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        order = "channels_last" if value else "contiguous_format"
        code = f"{{model}}.to(memory_format=torch.{order})"
        return (ModelStatement(code=code, imports=("import torch",), reordered=bool(value)),)
