"""Batches are put into page-locked memory, from which the GPU can copy by itself.

What it does
    Sets `DataLoader(pin_memory=True)`: a thread moves each batch into page-locked memory.

When it helps
    On a GPU, when copying batches to the device takes time: copies from page-locked memory are
    faster, and only they can run beside the computing (with `non_blocking`).

What it costs
    A thread beside the training and memory that cannot be swapped; with many small batches it can
    slow down.

What it changes
    Nothing: the same numbers arrive.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import NO_COPIES, NO_LOADER, ON_THE_CPU, little_from_copying, on_cuda
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, LoaderArgument
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup


class PinMemory(Knob):
    name = "pin_memory"
    relieves = frozenset({Bottleneck.COPY})
    semantics = Semantics.IDENTICAL
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if not on_cuda(profile):
            return Skip(reason=ON_THE_CPU, impossible=True)
        if profile.seen.loader is None:
            return Skip(reason=NO_LOADER, impossible=True)
        if profile.seen.copies_to_device == 0:
            return Skip(reason=NO_COPIES)
        if reason := little_from_copying(profile):
            return Skip(reason=reason)
        return Choices(own=self.read(profile.seen), values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # From pinned memory a GPU copies two to three times as fast.
        return Expectation(phase="copy", log_mean=-0.7 if value else 0.0, sd=0.5)

    def read(self, seen: Seen) -> Value:
        return seen.loader is not None and seen.loader.pin_memory

    def apply(self, setup: Setup, value: Value) -> None:
        setup.loader["pin_memory"] = value

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (LoaderArgument(name="pin_memory", code=str(value)),)
