"""Clearing gradients frees them instead of filling them with zeros.

What it does
    Makes `zero_grad` set gradients to None, torch's default since 2.0, where the program asks for
    zeros.

When it helps
    When the program says `zero_grad(set_to_none=False)`: it saves writing zeros, and reading them
    to add to.

What it costs
    Nothing; memory is freed between steps.

What it changes
    Nothing where every parameter gets a gradient in every step, or in none. One that gets none in
    some step would be left alone by the optimizer, instead of being moved by its momentum and
    weight decay: where a look at some steps sees that (heads trained in turns), or the text shows
    that a later one may leave out a part of the model, it is not tried.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ZeroGradToNone
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup


class SetToNone(Knob):
    name = "set_to_none"
    relieves = frozenset({Bottleneck.OVERHEAD, Bottleneck.MEMORY})
    semantics = Semantics.IDENTICAL
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if profile.seen.places.zero_grad is None:
            return Skip(
                reason="zero_grad() was not seen to be called: what the program does to its "
                "gradients instead is left as it is"
            )
        if self.read(profile.seen):
            return Skip(reason="the program frees its gradients already")
        return Choices(own=False, values=(False, True))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        return Expectation(phase="compute", log_mean=-0.02 if value else 0.0, sd=0.03)

    def read(self, seen: Seen) -> Value:
        return seen.set_to_none

    def apply(self, setup: Setup, value: Value) -> None:
        setup.set_to_none = bool(value)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (ZeroGradToNone(),) if value else ()
