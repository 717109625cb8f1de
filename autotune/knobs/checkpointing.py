"""Activations of repeated blocks are computed again in the backward pass instead of being kept.

What it does
    Wraps the `forward` of each repeated block (the entries of a `ModuleList` or `Sequential` of one
    class) in `torch.utils.checkpoint.checkpoint(..., use_reentrant=False)`. Without gradients
    nothing is recomputed.

When it helps
    Only when memory is nearly full: it makes room for what would not fit. It never makes a step
    faster by itself.

What it costs
    A second forward pass of every block: 0.59 to 0.77 times the speed where it was measured.

What it changes
    Nothing but rounding: dropout replays the random numbers of the first pass.
"""

from typing import TYPE_CHECKING

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import plenty_of_memory
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ModelStatement
from autotune.workload.blocks import repeated_blocks
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

if TYPE_CHECKING:
    from torch import nn


class Checkpointing(Knob):
    name = "checkpointing"
    relieves = frozenset({Bottleneck.MEMORY})
    semantics = Semantics.EQUIVALENT
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if self.read(profile.seen):
            return Skip(reason="the model recomputes its activations already")
        if not any(model.blocks for model in profile.seen.models):
            return Skip(
                reason="the model has no repeated blocks that could be recomputed", impossible=True
            )
        if reason := plenty_of_memory(profile):
            return Skip(reason=f"{reason}, and recomputing activations only costs time")
        return Choices(own=False, values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # Everything inside is computed twice: 0.59x to 0.77x of the speed.
        return Expectation(phase="compute", log_mean=0.35 if value else 0.0, sd=0.15)

    def read(self, seen: Seen) -> Value:
        return any(model.checkpointed for model in seen.models)

    def apply(self, setup: Setup, value: Value) -> None:
        if value:
            setup.model.append(_checkpoint_blocks)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        blocks = seen.models[0].blocks if seen.models else ()
        if not value or not blocks:
            return ()
        containers = dict.fromkeys(name.rpartition(".")[0] for name in blocks)
        paths = [_expression(container) for container in containers]
        blocks_code = (
            paths[0] if len(paths) == 1 else f"({', '.join(f'*{path}' for path in paths)})"
        )
        code = (
            f"for block in {blocks_code}:\n"
            "    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)"
        )
        imports = ("import functools", "from torch.utils.checkpoint import checkpoint")
        shared = len(seen.models) > 1 and seen.optimizers == 1
        of = seen.models[0].name
        return (ModelStatement(code=code, imports=imports, of=of, shared=shared),)


def _checkpoint_blocks(model: "nn.Module") -> None:
    import functools

    from torch.utils.checkpoint import checkpoint

    from autotune.workload.inspect import is_checkpointed

    inner = getattr(model, "_orig_mod", model)  # what torch.compile wrapped
    for name in repeated_blocks(inner):
        block = inner.get_submodule(name)
        if not is_checkpointed(block):
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


def _expression(container: str) -> str:
    """The code that reaches the submodule `container` of `{model}`."""
    if not container:
        return "{model}"
    if all(part.isidentifier() for part in container.split(".")):
        return f"{{model}}.{container}"
    return f'{{model}}.get_submodule("{container}")'
