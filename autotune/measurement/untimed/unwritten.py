"""Memory that is kept held to its promise in runs that are not timed: what the system gives is full
of zeros, what the process has used before is not, and some programs read what they never wrote.
"""

import functools
from collections.abc import Sequence
from contextlib import suppress

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.trained import (
    SOONER,
    SOONER_STEP_SHARE,
    Start,
    given_another_at,
    parts_at,
    trained,
)
from autotune.measurement.untimed.vetted import Vetted


def vet_unwritten(
    start: Start, values: Sequence[Value], *, place: str, seconds: float, sooner: Start
) -> Vetted:
    """`values` of the knob without keeping memory where the training is another once new memory
    begins with numbers that are not zero; what cannot be compared is left to its trial. At `place`
    the program takes memory that it has to write itself. Each of two or three runs takes so many
    `seconds`, as `sooner` starts it where it takes a step so.
    """
    reason = ""
    for begin, so in ((sooner, SOONER), (start, "")):
        with suppress(NotPossible, RunEnded):
            reason = _difference(begin, seconds, so)
            break
    if not reason:
        return Vetted(values=tuple(values))
    said = (
        f"{reason} once new memory is not full of zeros, as memory that is kept is not: the "
        f"program, or a library, reads some that it never wrote ({place} takes such)"
    )
    return Vetted(values=tuple(each for each in values if not each), reason=said)


def _difference(start: Start, seconds: float, so: str) -> str:
    """How the training is another; "" where it is not, or it is another in each run."""
    start = functools.partial(start, alike=True)  # which notes what loaders give
    train = functools.partial(trained, step_seconds=SOONER_STEP_SHARE * seconds)
    own = train(start, {}, seconds)
    most = len(own.losses)
    try:
        other = train(functools.partial(start, littered=True), {}, seconds, most)
    except RunEnded as end:
        return f"it fails{so} ({end.failure.reason})" if end.failure.kind == "crashed" else ""
    step, batch = parts_at(own, other), given_another_at(own, other)
    again = train(start, {}, 2 * seconds, most) if step or batch else own
    if step and again.losses[:step] == own.losses[:step]:  # further on it may differ by itself
        was, would = own.losses[step - 1], other.losses[step - 1]
        return f"the loss of step {step}{so} is {would:.6g} instead of {was:.6g}"
    if batch and again.given[:batch] == own.given[:batch]:
        return f"batch {batch} of the training{so} comes out different"
    return ""
