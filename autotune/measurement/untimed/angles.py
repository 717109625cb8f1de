"""A shorter number format held to its promise where a program computes sines and cosines: it must
not round their angles by a notable part of a wave.
"""

import os
from collections.abc import Sequence

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetting import Start, Vetted
from autotune.workload.found import RoundedAngle
from autotune.workload.window import ANGLES

# Of a wave's 6.3 radians: Hugging Face's rotary embeddings leave autocast for less (positions of
# some hundreds). bf16 comes to it at 13 radians, fp16 at 102.
MOST_RADIANS = 0.1
_SHORT = ("bf16", "fp16")
_STEPS = 2


def vet_angles(start: Start, values: Sequence[Value]) -> Vetted:
    """`values` of the number format without those that round a sine's angles too far; what cannot
    be looked at is left to its trial.

    Args:
        start: starts the program with settings.
        values: of the knob `precision`.
    """
    found = {value: _rounded(start, value) for value in values if value in _SHORT}
    rounded = {value: angle for value, angle in found.items() if _is_far(angle)}
    reason = next((_said(value, angle) for value, angle in rounded.items() if angle), "")
    return Vetted(values=tuple(each for each in values if each not in rounded), reason=reason)


def _rounded(start: Start, value: Value) -> RoundedAngle | None:
    run = start({"precision": value})
    try:
        found = run.watch(ANGLES, steps=_STEPS).found
    except (NotPossible, RunEnded):
        return None
    finally:
        run.kill()
    assert found is None or isinstance(found, RoundedAngle), found
    return found


def _is_far(angle: RoundedAngle | None) -> bool:
    return angle is not None and angle.step_radians > MOST_RADIANS


def _said(value: Value, angle: RoundedAngle) -> str:
    place = angle.place
    at = f" at {os.path.basename(place.path)}:{place.line}" if place else ""
    return (
        f"in {value} a sine or cosine{at} is given angles of up to {angle.radians:,.0f} radians, "
        f"rounded to steps of {angle.step_radians:.2g}: compute them in float32, with autocast off"
    )
