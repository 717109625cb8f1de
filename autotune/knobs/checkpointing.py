"""Activations of repeated blocks are computed again in the backward pass instead of being kept.

What it does
    Wraps the `forward` of the first n repeated blocks (the entries of a `ModuleList` or
    `Sequential` of one class), or of the last n where the value is negative, in
    `torch.utils.checkpoint.checkpoint(..., use_reentrant=False)`. Which end, and how many, follows
    from the bytes that each block was seen to keep and the time that its forward pass takes.
    Without gradients nothing is recomputed.

When it helps
    Only when memory is nearly full: it makes room for what would not fit. It never makes a step
    faster by itself.

What it costs
    A second forward pass of each of these blocks: with all of them 0.59 to 0.77 times the speed
    where it was measured.

What it changes
    Nothing but rounding: dropout replays the random numbers of the first pass. It is not tried
    where the blocks keep statistics or a norm that each forward pass moves on, as batch norm and
    spectral norm do: the second pass would move them once more.
"""

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import compute_seconds, models_pass, plenty_of_memory
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.memory_model import SCARCE_MEMORY
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ModelStatement
from autotune.workload.found import SavedBlock
from autotune.workload.parts.blocks import from_an_end, repeated_blocks
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

if TYPE_CHECKING:
    from torch import nn

_MOST_BLOCKS = 1024
# Everything inside all blocks is computed twice: 0.59x to 0.77x of the speed.
_ALL_AGAIN = 0.35
# What does not take a `forward` that is no method, or what others could not load.
_HINDERED = ("torch.jit.script", "torch.save")
# `autotune.workload.parts.recomputing.recomputed` for a program's own source.
_FUNCTION = """
def recomputed(forward, /, *args, **kwargs):
    def run(*given):  # by position: torch looks there for devices whose random numbers to keep
        return forward(*given[: len(args)], **dict(zip(kwargs, given[len(args) :])))

    return torch_checkpoint(run, *args, *kwargs.values(), use_reentrant=False)
"""


class Checkpointing(Knob):
    name = "checkpointing"
    relieves = frozenset({Bottleneck.MEMORY})
    semantics = Semantics.EQUIVALENT
    admits = range(-_MOST_BLOCKS, _MOST_BLOCKS + 1)

    def domain(self, profile: Profile) -> Choices | Skip:
        if self.read(profile.seen):
            return Skip(reason="the model recomputes activations already")
        plenty = plenty_of_memory(profile)
        if plenty:
            return Skip(reason=f"{plenty}, and recomputing activations only costs time")
        if not _blocks(profile.seen):
            return Skip(
                reason="the model has no list of repeated blocks that could be recomputed",
                impossible=True,
            )
        if reason := models_pass(profile):
            return Skip(reason=reason, impossible=True)
        if any(model.moving_blocks for model in profile.seen.models):
            reason = (
                "some of its blocks keep statistics (batch norm, spectral norm) that a second "
                "forward pass would move once more"
            )
            return Skip(reason=reason, impossible=True)
        return Choices(own=0, values=(0, *dict.fromkeys(_worth_trying(profile))))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        count, measured = int(value), profile.memory.blocks
        again = sum(block.seconds for block in from_an_end(measured, count))
        compute = compute_seconds(profile)
        if again > 0 and compute > 0:
            passes = max(1.0, profile.seen.backwards_per_step)
            return Expectation(phase="compute", log_mean=math.log1p(passes * again / compute))
        blocks = len(_blocks(profile.seen)) or _MOST_BLOCKS
        share = min(1.0, abs(count) / blocks)
        return Expectation(phase="compute", log_mean=_ALL_AGAIN * share, sd=0.15)

    def read(self, seen: Seen) -> Value:
        models = (model for model in seen.models if model.blocks or model.checkpointed)
        return next((model.checkpointed for model in models), 0)

    def apply(self, setup: Setup, value: Value) -> None:
        if value:
            setup.model.append(functools.partial(_checkpoint_blocks, count=int(value)))

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        blocks = _blocks(seen)
        if not value or not blocks:
            return ()
        paths = _paths(blocks, from_an_end(blocks, int(value)))
        blocks_code = (
            paths[0] if len(paths) == 1 else f"({', '.join(f'*{path}' for path in paths)})"
        )
        code = (
            f"for block in {blocks_code}:\n"
            "    if not isinstance(block.forward, functools.partial):\n"
            "        block.forward = functools.partial(recomputed, block.forward)"
        )
        imports = (
            "import functools",
            "from torch.utils.checkpoint import checkpoint as torch_checkpoint",
        )
        undone = f"for block in {blocks_code}: del block.forward"
        shared = len(seen.models) > 1 and seen.optimizers == 1
        of = next(model.name for model in seen.models if model.blocks)
        return (
            ModelStatement(
                code=code,
                function=_FUNCTION,
                imports=imports,
                of=of,
                shared=shared,
                hinders=_HINDERED,
                undone=undone,
            ),
        )


def _blocks(seen: Seen) -> tuple[str, ...]:
    """Of the first model that has any."""
    return next((model.blocks for model in seen.models if model.blocks), ())


def _worth_trying(profile: Profile) -> list[int]:
    """How many blocks make just enough room, free half of what they hold, or are all of them; of
    either end that which takes less time again.
    """
    count, memory = len(_blocks(profile.seen)), profile.memory
    if len(memory.blocks) != count or memory.most_bytes is None:
        return sorted({(count + 1) // 2, count})
    # Blocks were looked at in batches that came, and hold more in the largest.
    missing = (memory.most_bytes - SCARCE_MEMORY * memory.capacity_bytes) / memory.growth
    half = sum(block.freed_bytes for block in memory.blocks) / 2
    tried = {_fewest(memory.blocks, freed) for freed in (missing, half) if freed > 0}
    return sorted({*tried, count}, key=abs)


def _fewest(blocks: Sequence[SavedBlock], freed_bytes: float) -> int:
    """The blocks at either end that free so much in the least time; all where fewer do not."""

    def seconds(count: int) -> float:
        return sum(block.seconds for block in from_an_end(blocks, count))

    enough = (
        next(
            count
            for count in range(side, side * (len(blocks) + 1), side)
            if abs(count) == len(blocks)
            or sum(block.freed_bytes for block in from_an_end(blocks, count)) >= freed_bytes
        )
        for side in (1, -1)
    )
    fewest = min(enough, key=seconds)
    return abs(fewest) if abs(fewest) == len(blocks) else fewest


def _checkpoint_blocks(model: "nn.Module", *, count: int) -> None:
    from autotune.workload.parts.recomputing import is_checkpointed, recomputed

    inner = getattr(model, "_orig_mod", model)  # what torch.compile wrapped
    for name in from_an_end(repeated_blocks(inner), count):
        block = inner.get_submodule(name)
        if not is_checkpointed(block):
            block.forward = functools.partial(recomputed, block.forward)


def _paths(blocks: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """The code that gives `chosen`, those at an end of `blocks`, container by container."""
    paths = []
    for container in dict.fromkeys(name.rpartition(".")[0] for name in chosen):
        whole = [name for name in blocks if name.rpartition(".")[0] == container]
        taken = [name for name in whole if name in chosen]
        path = _expression(container)
        if taken != whole:
            # A slice of a container is made by calling its class, which may be the program's own.
            end = f"[:{len(taken)}]" if taken[0] == whole[0] else f"[-{len(taken)}:]"
            path = f"list({path}.children()){end}"
        paths.append(path)
    return paths


def _expression(container: str) -> str:
    """The code that reaches the submodule `container` of `{model}`."""
    if not container:
        return "{model}"
    if all(part.isidentifier() for part in container.split(".")):
        return f"{{model}}.{container}"
    return f'{{model}}.get_submodule("{container}")'
