"""Torch's allocator grows its blocks of GPU memory in place instead of asking for new ones.

What it does
    Sets `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before the program first uses the GPU,
    beside what the variable says already.

When it helps
    On a GPU whose memory is nearly full, when the allocator had to give blocks back and ask again,
    or keeps much more memory than the program uses at its peak: sizes that change from batch to
    batch leave gaps that nothing fits into.

What it costs
    Slower first allocations. Memory cannot be shared with other processes by CUDA's own handles.

What it changes
    Nothing: the same numbers lie at other addresses.
"""

import os
import warnings

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import on_cuda, percent
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.memory_model import SCARCE_MEMORY
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

# Torch 2.6 to 2.8 read this name only; later ones read the other where this is not set.
_VARIABLE, _OTHER = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
_SETTING = "expandable_segments:True"
# The share of the memory kept by the allocator that the program does not use at its peak, from
# which gaps are worth closing; an estimate.
_MUCH_UNUSED = 0.2


class ExpandableSegments(Knob):
    name = "expandable_segments"
    relieves = frozenset({Bottleneck.MEMORY})
    semantics = Semantics.IDENTICAL
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if not on_cuda(profile):
            return Skip(reason="the program trains on the CPU, without torch's GPU allocator")
        if self.read(profile.seen):
            return Skip(reason="the allocator grows its blocks in place already")
        if _asked_again(profile):
            return Choices(own=False, values=(False, True))
        peak, kept = profile.memory.peak_bytes, profile.memory.reserved_bytes
        if peak is None or not kept:
            return Skip(reason="how much memory the allocator keeps was not measured")
        share, unused = kept / profile.memory.capacity_bytes, 1 - peak / kept
        if share < SCARCE_MEMORY:
            return Skip(reason=f"the allocator keeps {percent(share)} of the memory: there is room")
        if unused < _MUCH_UNUSED:
            return Skip(
                reason=f"the program uses all but {percent(unused)} of the memory that the "
                "allocator keeps: there are no gaps to close"
            )
        return Choices(own=False, values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        return Expectation(phase="compute", log_mean=-0.05 if value else 0.0, sd=0.1)

    def read(self, seen: Seen) -> Value:
        return seen.expandable_segments

    def apply(self, setup: Setup, value: Value) -> None:
        if value:
            setup.process.append(_grow_in_place)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        if not value:
            return ()
        code = f'os.environ.setdefault("{_VARIABLE}", "{_SETTING}")'
        if own := _own():  # the search's environment is the program's
            code = f'os.environ["{_VARIABLE}"] = "{own},{_SETTING}"'
        return (ProcessStatement(code=code, imports=("import os",)),)


def _grow_in_place() -> None:
    import torch

    own = _own()
    if _SETTING in own:
        return
    os.environ[_VARIABLE] = f"{own},{_SETTING}" if own else _SETTING
    if torch.cuda.is_initialized():
        warnings.warn(
            "expandable_segments has no effect: this process has used the GPU already. Set "
            f"{_VARIABLE}={_SETTING} before it starts",
            stacklevel=2,
        )


def _own() -> str:
    """What the allocator is told already."""
    return os.environ.get(_VARIABLE, os.environ.get(_OTHER, ""))


def _asked_again(profile: Profile) -> bool:
    """Whether the allocator had to give memory back before it got more."""
    return profile.gpu is not None and bool(profile.gpu.allocator_retries)
