"""A shorter number format held to its promise where losses tell too late: something must be
computed in it, and it must neither round the angles of sines by a notable part of a wave, nor
predictions by one of what their targets differ by, nor whole numbers to others.
"""

import os
from collections.abc import Sequence

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetted import Start, Vetted
from autotune.source.edits import Place
from autotune.workload.found import Rounded, RoundedAngle, RoundedNumber, RoundedTarget
from autotune.workload.window import ROUNDING

# Of a wave's 6.3 radians: Hugging Face's rotary embeddings leave autocast for less (positions of
# some hundreds). bf16 comes to it at 13 radians, fp16 at 102.
MOST_RADIANS = 0.1
# Of the standard deviation of targets: a step of a tenth adds to the error of a model that explains
# 99 % of their variance a twelfth. bf16 comes to it for the years of songs, and for kelvins.
MOST_OF_THE_SPREAD = 0.1
_SHORT = ("bf16", "fp16")
_STEPS = 2


def vet_formats(start: Start, values: Sequence[Value]) -> Vetted:
    """`values` of the number format without those that round too far; what cannot be looked at is
    left to its trial.

    Args:
        start: starts the program with settings.
        values: of the knob `precision`.
    """
    found = {value: _too_far(start, value) for value in values if value in _SHORT}
    reasons = {value: why for value, why in found.items() if why}
    reason = next(iter(reasons.values()), "")
    return Vetted(values=tuple(each for each in values if each not in reasons), reason=reason)


def _too_far(start: Start, value: Value) -> str:
    """What `value` rounds too far, or that it does nothing, in words; "" where neither holds."""
    run = start({"precision": value})
    try:
        found = run.watch(ROUNDING, steps=_STEPS).found
        compiled = any(model.compiled != "off" for model in run.seen().models)
    except (NotPossible, RunEnded):
        return ""
    finally:
        run.kill()
    assert isinstance(found, Rounded), found
    if not (found.short or compiled):  # operations of what is compiled are not seen
        return (
            f"nothing of a step is computed in {value}: it has none of the products and "
            "convolutions that autocast casts, or turns it off around them"
        )
    angle, target, number = found.angle, found.target, found.number
    if angle is not None and angle.step_radians > MOST_RADIANS:
        return _angle_said(value, angle)
    if target is not None and target.step > MOST_OF_THE_SPREAD * target.spread:
        return _target_said(value, target)
    if number is not None and number.step > 1:
        return _number_said(value, number)
    return ""


def _angle_said(value: Value, angle: RoundedAngle) -> str:
    return (
        f"in {value} a sine or cosine{_at(angle.place)} is given angles of up to "
        f"{angle.radians:,.0f} radians, rounded to steps of {angle.step_radians:.2g}: compute them "
        "in float32, with autocast off"
    )


def _target_said(value: Value, target: RoundedTarget) -> str:
    return (
        f"in {value} predictions of around {target.size:,.4g} are rounded to steps of "
        f"{target.step:.2g}, and the targets that they are compared with{_at(target.place)} differ "
        f"by {target.spread:.2g}: take the mean from the targets, or compute the last layer in "
        "float32, with autocast off"
    )


def _number_said(value: Value, number: RoundedNumber) -> str:
    return (
        f"in {value} numbers of up to {number.size:,.0f} that are made whole ones"
        f"{_at(number.place)} (ids, say) are rounded to steps of {number.step:,.0f}: compute them "
        "in float32, with autocast off"
    )


def _at(place: Place | None) -> str:
    return f" at {os.path.basename(place.path)}:{place.line}" if place else ""
