"""Torch's allocator grows its blocks of GPU memory in place instead of asking for new ones.

What it does
    Sets `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before the program first uses the GPU,
    beside what the variable says already, and the same under its newer name `PYTORCH_ALLOC_CONF`.

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

# Torch 2.6 to 2.8 read the first name only; from 2.9 on, where the second is set, that only, and
# some versions warn of the first; later ones read the first again before the second.
_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
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
        if profile.gpu is not None and profile.gpu.allocator_retries:
            return Choices(own=False, values=(False, True))
        memory = profile.memory
        peak, kept = memory.allocated_bytes or memory.peak_bytes, memory.reserved_bytes
        if peak is None or not kept:
            return Skip(reason="how much memory the allocator keeps was not measured")
        share, unused = kept / profile.memory.capacity_bytes, 1 - peak / kept
        if share < SCARCE_MEMORY:
            return Skip(reason=f"the allocator keeps {percent(share)} of the memory: there is room")
        if unused < _MUCH_UNUSED:
            return Skip(
                reason=f"the program uses all but {percent(unused)} of the memory that the "
                "allocator keeps: closing its gaps would give back no more than that"
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
        return tuple(
            ProcessStatement(
                code=f'os.environ.setdefault("{name}", "{told}")'
                if told == _SETTING
                else f'os.environ["{name}"] = "{told}"',
                imports=("import os",),
            )
            for name, told in _told().items()  # the search's environment is the program's
        )


def _grow_in_place() -> None:
    import torch

    told = _told()
    if all(os.environ.get(name) == each for name, each in told.items()):
        return
    os.environ.update(told)
    if torch.cuda.is_initialized():
        warnings.warn(
            "expandable_segments has no effect: this process has used the GPU already. Set "
            f"{_VARIABLES[0]}={_SETTING} before it starts",
            stacklevel=2,
        )


def _told() -> dict[str, str]:
    """What each variable says with the setting: beside what it says already, or else the other."""
    said = [os.environ.get(name, "") for name in _VARIABLES]
    either = said[0] or said[1]
    own = {name: each or either for name, each in zip(_VARIABLES, said, strict=True)}
    return {
        name: each if _SETTING in each else f"{each},{_SETTING}".lstrip(",")
        for name, each in own.items()
    }
