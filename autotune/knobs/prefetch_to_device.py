"""The next batch is copied to the GPU on a stream of its own while the program computes.

What it does
    Draws one batch ahead of the training and copies it on a second CUDA stream; the stream that
    computes waits for that copy alone.

When it helps
    On a GPU, when copying takes time although batches lie in page-locked memory: a copy on the
    stream that computes, non-blocking or not, waits for what is computed before it.

What it costs
    The memory of one more batch on the GPU, and of one for each step that the program is ahead of
    the GPU: a batch's memory is free again once the step on it is done. A trial's peak has them.

What it changes
    Nothing: the same batches in the same order.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import NO_COPIES, NO_LOADER, ON_THE_CPU, little_from_copying, on_cuda
from autotune.knobs.knob import Choices, Config, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, PrefetchToDevice
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup


class PrefetchesToDevice(Knob):
    name = "prefetch_to_device"
    relieves = frozenset({Bottleneck.COPY})
    semantics = Semantics.IDENTICAL
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        seen = profile.seen
        if not on_cuda(profile):
            return Skip(reason=ON_THE_CPU, impossible=True)
        if self.read(seen):
            return Skip(reason="batches are copied beside the training already")
        if seen.loader is None:
            return Skip(reason=NO_LOADER)
        if seen.copies_to_device == 0:
            return Skip(reason=NO_COPIES)
        if seen.loader.threaded or seen.loader.ahead:
            return Skip(reason="the program, or its framework, draws its batches ahead itself")
        if reason := little_from_copying(profile):
            return Skip(reason=reason)
        return Choices(own=False, values=(False, True))

    def active(self, chosen: Config) -> bool:
        # A copy from pageable memory makes the program wait; without workers the program would
        # wait for the next batch before it begins with this one, and in another order of random
        # numbers; parts of a batch are no batches.
        pinned = bool(chosen.get("pin_memory", True))
        return pinned and chosen.get("num_workers", 1) != 0 and chosen.get("micro_batches", 1) == 1

    def expects(self, value: Value, profile: Profile) -> Expectation:
        return Expectation(phase="copy", log_mean=-1.5 if value else 0.0, sd=0.6)

    def read(self, seen: Seen) -> Value:
        return seen.prefetch_to_device

    def apply(self, setup: Setup, value: Value) -> None:
        setup.prefetch_to_device = bool(value)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (PrefetchToDevice(),) if value else ()
