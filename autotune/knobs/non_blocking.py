"""Copies of batches to the GPU do not make the program wait.

What it does
    Passes `non_blocking=True` to the copies of each batch to the device.

When it helps
    On a GPU, when copying takes time and batches lie in page-locked memory (`pin_memory`): the copy
    then runs while the program queues its next operations.

What it costs
    Nothing.

What it changes
    Nothing: what uses the batch on the device is queued behind its copy.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import NO_COPIES, ON_THE_CPU, little_from_copying, on_cuda
from autotune.knobs.knob import Choices, Config, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, NonBlockingCopies
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup


class NonBlocking(Knob):
    name = "non_blocking"
    relieves = frozenset({Bottleneck.COPY})
    semantics = Semantics.IDENTICAL
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if not on_cuda(profile):
            return Skip(reason=ON_THE_CPU, impossible=True)
        if profile.seen.copies_to_device == 0:
            return Skip(reason=NO_COPIES, impossible=True)
        if profile.seen.own_buffers:
            reason = (
                "the program copies the same page-locked memory in several steps, which may be a "
                "buffer that it fills again, and must not before its copy has ended"
            )
            return Skip(reason=reason, impossible=True)
        if self.read(profile.seen):
            return Skip(reason="copies to the GPU are non-blocking already")
        if reason := little_from_copying(profile):
            return Skip(reason=reason)
        return Choices(own=False, values=(False, True))

    def active(self, chosen: Config) -> bool:
        # A copy from pageable memory waits whatever it is told; one that was made before does not.
        return bool(chosen.get("pin_memory", True)) and not chosen.get("prefetch_to_device", False)

    def expects(self, value: Value, profile: Profile) -> Expectation:
        return Expectation(phase="copy", log_mean=-0.3 if value else 0.0, sd=0.4)

    def read(self, seen: Seen) -> Value:
        return seen.non_blocking

    def apply(self, setup: Setup, value: Value) -> None:
        setup.non_blocking = bool(value)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (NonBlockingCopies(),) if value else ()
