"""Numbers too small for the whole precision of their format (denormal) are taken for zero.

What it does
    Calls `torch.set_flush_denormal(True)` before anything is computed: a mode of the processor's
    that threads inherit from the one that starts them.

When it helps
    On a CPU, whose arithmetic takes many times as long for such a number. Averages that an
    optimizer keeps become denormal, and stay so, some 700 steps after their last gradient that was
    not zero: rows of an embedding that are seldom drawn, units that have died. Trials are over by
    then; so where the profile has timed what they will cost, all that is tried has this set.

What it costs
    NumPy warns that its smallest subnormal is zero, where it is asked for it.

What it changes
    Numbers below 1.2e-38 (in float32) become zero. An average of squared gradients (Adam's) that
    becomes zero is no other to divide by, unless `eps` is as small as its root: that is refused,
    as are optimizers that step by a sign (Lion, Rprop), programs in which such a number is
    written, and those that ask of numbers which they make smaller again and again whether they are
    zero. Where two steps, carried out with zeros as well, come to another result of some size
    (products of tiny units that are multiplied back), it is refused too.
"""

import math

from autotune.diagnosis import Bottleneck
from autotune.diagnosis.finding import NO_GAIN
from autotune.knobs.evidence import on_cuda
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, ProcessStatement
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

# Arithmetic is taken to be so many times as long for a denormal number where the processor was not
# asked, and what that makes of those that operations give is to be more than this share of the
# time. Both are chosen.
_TIMES_AS_LONG, _LITTLE = 100.0, 0.1
# An optimizer divides by a root of such an average and `eps`: what is the least of all normal
# numbers, 1.2e-38, may be a share of so much of that sum. Chosen.
_LARGEST_DENORMAL, _OF_DIVISOR = 1.18e-38, 1e-4
# Where their cost could not be timed, so many averages are taken to have one.
_MANY_AVERAGES = 0.05
# In the names of optimizers that step by a sign, torch's own and those of libraries.
_BY_A_SIGN = ("lion", "rprop", "sign")


def _goes_by_them(seen: Seen) -> str:
    """Which optimizer would go another way with such numbers taken for zero; "" where none does."""
    for each in (seen.optimizer, *seen.beside):
        if each is not None and any(kind in each.name.lower() for kind in _BY_A_SIGN):
            return f"{each.name} steps by the sign of what may be so small"
        least = math.sqrt(_LARGEST_DENORMAL) / _OF_DIVISOR
        if each is not None and each.eps is not None and each.eps < least:
            return (
                f"{each.name} divides by the root of an average of squares, and its eps of "
                f"{each.eps:g} is too small to tell one that is denormal from zero"
            )
    return ""


def _longer(profile: Profile) -> float:
    """What those that operations give add to their time, as a share of it."""
    share = profile.denormals.results if profile.denormals else 0.0
    times_as_long = max(1.0, profile.probes.get("denormal_times", _TIMES_AS_LONG))
    return share * (times_as_long - 1)


class FlushDenormal(Knob):
    name = "flush_denormal"
    relieves = frozenset({Bottleneck.DENORMALS, Bottleneck.COMPUTE, Bottleneck.OPTIMIZER})
    semantics = Semantics.EQUIVALENT
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        if on_cuda(profile):
            return Skip(reason="a GPU computes with denormal numbers as fast", impossible=True)
        if self.read(profile.seen):
            return Skip(reason="the program has the processor take denormal numbers for zero")
        if reason := _goes_by_them(profile.seen):
            return Skip(reason=reason, impossible=True)
        found = profile.denormals
        if found is None:
            return Skip(reason="whether numbers are denormal was not looked at")
        if _longer(profile) < _LITTLE and not self.goes_along(profile):
            return Skip(reason="denormal numbers take next to none of its time")
        return Choices(own=False, values=(False, True))

    def goes_along(self, profile: Profile) -> bool:
        found = profile.denormals
        if found is None or found.times_as_long is None:
            return found is not None and found.coming >= _MANY_AVERAGES
        return found.times_as_long >= NO_GAIN

    def expects(self, value: Value, profile: Profile) -> Expectation:
        slower = math.log1p(_longer(profile))
        return Expectation(phase="compute", log_mean=-slower if value else 0.0, sd=0.1 + slower)

    def read(self, seen: Seen) -> Value:
        return seen.flushes_denormals

    def apply(self, setup: Setup, value: Value) -> None:
        def switch() -> None:
            import torch

            torch.set_flush_denormal(bool(value))

        setup.process.append(switch)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (ProcessStatement(code=f"torch.set_flush_denormal({value})", flushes=True),)
