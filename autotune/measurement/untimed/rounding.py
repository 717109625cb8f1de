"""A shorter number format held to its promise where losses tell too late: something must be
computed in it, and it must neither round the angles of sines by a notable part of a wave, nor
predictions by one of what their targets differ by, nor data by what they differ by, nor whole
numbers to others, nor leave to chance which points are the nearest, nor make probabilities 1 of
which the logarithm is taken, nor give the matrix of a decomposition, nor lose a small change of
what the model is given, nor be that of running sums.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.knobs.evidence import gives_another
from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.untimed.looks import computed_again
from autotune.measurement.untimed.vetted import TOO_LITTLE_TIME, Start, Vetted
from autotune.profiling.profile import ROUNDED_PREDICTIONS, Doubt
from autotune.source.edits import Place
from autotune.workload.found import (
    Again,
    CarriedOn,
    Rounded,
    RoundedAngle,
    RoundedChance,
    RoundedChange,
    RoundedChoice,
    RoundedInput,
    RoundedMatrix,
    RoundedNumber,
    RoundedTarget,
)
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, DRAIN, ROUNDING

# Of a wave's 6.3 radians: Hugging Face's rotary embeddings leave autocast for less (positions of
# some hundreds). bf16 comes to it at 13 radians, fp16 at 102.
MOST_RADIANS = 0.1
# Of the standard deviation of targets: a step of a tenth adds to the error of a model that explains
# 99 % of their variance a twelfth. bf16 comes to it for the years of songs, and for kelvins.
MOST_OF_THE_SPREAD = 0.1
# Of the standard deviation of a column of data: a fiftieth of its variance.
MOST_NOISE = 0.15
# Of what is chosen by what no training moves.
MOST_UNTOLD = 0.25
# Of the size of what it changes, in steps of the format: half a step is rounded away, but what
# lies near 0 has finer ones.
LEAST_CHANGE = 0.25
_SHORT: Mapping[Value, str] = {"bf16": "bfloat16", "fp16": "float16"}
_STEPS = 3
# A further format is looked at where that takes no more of the time that is left for trials.
MOST_OF_THE_REST = 0.3


def vet_formats(
    start: Start, values: Sequence[Value], seconds: float, *, trials_deadline: float = math.inf
) -> Vetted:
    """`values` of the number format without those that round too far, and without those of which
    there is no time to see it; what cannot be looked at is left to its trial.

    Args:
        start: starts the program with settings.
        values: of the knob `precision`.
        seconds: after which it is looked a second time, if the program still runs; and a third time
            when batches were drawn for as long and left out, of which a last one is computed in
            both formats.
        trials_deadline: when trials are to be over, by `time.monotonic()`. The first format is
            looked at in any case.
    """
    looks: dict[Value, list[Rounded]] = {value: [] for value in values if value in _SHORT}
    reasons, late, took = dict[Value, str](), "", 0.0
    for value, seen in looks.items():
        began = time.monotonic()
        if took and took > MOST_OF_THE_REST * (trials_deadline - began):
            reasons[value] = late = f"{value} could not be looked at {TOO_LITTLE_TIME}"
        elif why := _too_far(start, value, seconds, seen):
            reasons[value] = why
        took = max(took, time.monotonic() - began)
    reason = "; ".join(dict.fromkeys(filter(None, (*list(reasons.values())[:1], late))))
    kept = tuple(each for each in values if each not in reasons)
    left = {value: found for value, found in looks.items() if value in kept}
    return Vetted(values=kept, reason=reason, doubt=_doubt_of(left))


def _doubt_of(looks: Mapping[Value, Sequence[Rounded]]) -> Doubt | None:
    """That predictions are rounded in formats, by what was seen in `looks` at each, where they are
    held to numbers: it shows once errors are small, which no run that is looked at need come to.
    """
    targets = {
        value: [each.target for each in found if each.target] for value, found in looks.items()
    }
    formats = [str(value) for value, found in targets.items() if found]
    if not formats:
        return None
    target = max((each for found in targets.values() for each in found), key=_rounded_share)
    share = f" ({100 * _rounded_share(target):.2g} % of what targets differ by)"
    beside = share if target.spread else ""
    return Doubt(
        name=ROUNDED_PREDICTIONS,
        evidence=f"In {' and '.join(formats)} predictions of around {target.size:,.4g} are rounded "
        f"to steps of {'up to ' * (len(formats) > 1)}{target.step:.2g}{beside}{_at(target.place)}: "
        "once errors are as small as that, it trains otherwise.",
        advice="Where they are to become so small, compute what gives the predictions in float32, "
        "with autocast off.",
    )


def _rounded_share(target: RoundedTarget) -> float:
    """How large a step is beside what targets differ by; 0 where they do not differ."""
    return target.step / target.spread if target.spread else 0.0


def _too_far(start: Start, value: Value, seconds: float, looks: list[Rounded]) -> str:
    """What `value` rounds too far, or that it does nothing, in words; "" where neither holds. The
    `looks` are kept.
    """
    run = start({"precision": value})
    seen: Seen | None = None
    late: Again | None = None
    try:
        looks.append(_look(run))
        seen = run.seen()
        windows = [run.window(seconds, mode=AS_IS)]
        looks.append(_look(run))
        run.window(seconds, mode=DRAIN)
        looks.append(_look(run))
        late = computed_again(run, replace(seen, autocast=""), windows)
    except (NotPossible, RunEnded):
        pass
    finally:
        run.kill()
    if seen is None:
        return ""
    if not (looks[0].short or seen.is_compiled):  # operations of what is compiled are not seen
        return (
            f"nothing of a step is computed in {value}: it has none of the products and "
            "convolutions, in float32, that autocast casts, or turns it off around them"
        )
    changes = [change for each in looks for change in each.changes]
    said = (
        *(_said(value, each) for each in looks),
        _change_said(value, _rounded_away(changes)),
        _late_said(value, late),
    )
    return next(filter(None, said), "")


def _late_said(value: Value, late: Again | None) -> str:
    reason = gives_another(late.formats.get(_SHORT[value]) if late else None)
    return reason and f"in {value}, of a batch that comes much later, {reason}"


def _look(run: ProcessRun) -> Rounded:
    found = run.watch(ROUNDING, steps=_STEPS).found
    assert isinstance(found, Rounded), found
    return found


def _said(value: Value, found: Rounded) -> str:
    said = (
        _angle_said(value, found.angle),
        _target_said(value, found.target),
        _number_said(value, found.number),
        _choice_said(value, found.choice),
        _chance_said(value, found.chance),
        _matrix_said(value, found.matrix),
        _carried_said(value, found.carried),
        _data_said(value, found.given),
    )
    return next(filter(None, said), "")


def _data_said(value: Value, given: RoundedInput | None) -> str:
    if given is None or given.noise <= MOST_NOISE:
        return ""
    return (
        f"in {value} numbers of around {given.size:,.4g} that come into a layer{_at(given.place)} "
        f"are rounded to steps of {given.step:.2g}, and those of a batch differ by "
        f"{given.spread:.2g}: call that layer with autocast off"
    )


def _angle_said(value: Value, angle: RoundedAngle | None) -> str:
    if angle is None or angle.step_radians <= MOST_RADIANS:
        return ""
    return (
        f"in {value} a sine or cosine{_at(angle.place)} is given angles of up to "
        f"{angle.radians:,.0f} radians, rounded to steps of {angle.step_radians:.2g}: compute them "
        "in float32, with autocast off"
    )


def _target_said(value: Value, target: RoundedTarget | None) -> str:
    if target is None or target.step <= MOST_OF_THE_SPREAD * target.spread:
        return ""
    return (
        f"in {value} predictions of around {target.size:,.4g} are rounded to steps of "
        f"{target.step:.2g}, and the targets that they are compared with{_at(target.place)} differ "
        f"by {target.spread:.2g}: take the mean from the targets, or compute what gives the "
        "predictions in float32, with autocast off"
    )


def _number_said(value: Value, number: RoundedNumber | None) -> str:
    if number is None or number.step <= 1:
        return ""
    return (
        f"in {value} numbers of up to {number.size:,.0f} that are made whole ones"
        f"{_at(number.place)} (ids, say) are rounded to steps of {number.step:,.0f}: compute them "
        "in float32, with autocast off"
    )


def _choice_said(value: Value, choice: RoundedChoice | None) -> str:
    if choice is None or choice.untold <= MOST_UNTOLD:
        return ""
    if choice.limit is not None:
        return (
            f"in {value} what is computed of the data alone is held to {choice.limit:.3g}"
            f"{_at(choice.place)} (a radius, say), and {choice.untold:.0%} of what lies on one "
            "side of it are closer to it than the format tells apart: compute them in float32, "
            "with autocast off"
        )
    return (
        f"in {value} the largest or smallest of what is computed of the data alone are chosen"
        f"{_at(choice.place)} (the nearest points, say), and {choice.untold:.0%} of them are "
        "closer to the next one than the format tells apart: compute them in float32, with "
        "autocast off"
    )


def _chance_said(value: Value, chance: RoundedChance | None) -> str:
    if chance is None:
        return ""
    if chance.drawn:
        return (
            f"the logarithm of uniform random numbers is taken{_at(chance.place)}, of which "
            f"{value} has too few: draw them in float32"
        )
    return (
        f"in {value} numbers near 1 (probabilities, say) become 1 before their logarithm is taken"
        f"{_at(chance.place)}, and nothing more is learnt of them: take log_softmax, logsigmoid, "
        "softplus, or a loss of logits"
    )


def _matrix_said(value: Value, matrix: RoundedMatrix | None) -> str:
    if matrix is None:
        return ""
    return (
        f"in {value} a product gives the matrix that `{matrix.decomposition}` is given"
        f"{_at(matrix.place)}: rounded so, it may be without an inverse, or not positive definite, "
        "in some step: compute it in float32, with autocast off"
    )


def _rounded_away(changes: Sequence[RoundedChange]) -> RoundedChange | None:
    """The first of `changes` that is too small wherever it was seen: a mixture of two inputs has
    one of them nearly alone in some steps.
    """
    largest = dict[tuple[Place | None, int], RoundedChange]()
    for each in changes:
        known = largest.setdefault((each.place, each.turn), each)
        largest[each.place, each.turn] = max(known, each, key=lambda change: change.share)
    found = (each for each in largest.values() if each.share < LEAST_CHANGE * each.step)
    return next(found, None)


def _change_said(value: Value, change: RoundedChange | None) -> str:
    if change is None:
        return ""
    return (
        f"in {value} the model is not given the change of its input{_at(change.place)} (a "
        f"perturbation, say): {change.share:.1g} of its size is rounded away; compute what it is "
        "for in float32, with autocast off"
    )


def _carried_said(value: Value, carried: CarriedOn | None) -> str:
    if carried is None:
        return ""
    return (
        f"what is carried on from step to step is added to in {value}{_at(carried.place)}: what is "
        "small beside it is lost, as of a running sum or mean; keep it in float32"
    )


def _at(place: Place | None) -> str:
    return f" at {os.path.basename(place.path)}:{place.line}" if place else ""
