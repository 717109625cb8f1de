"""Denormal numbers taken for zero, held to their promise in a run that is not timed: no result that
matters may be another for it.
"""

import os
from collections.abc import Sequence

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetted import Start, Vetted, watched
from autotune.workload.found import Flushed
from autotune.workload.window import FLUSHING

# What a program does late, where that comes soon, is within so many steps.
_STEPS, _LATE_STEPS = 2, 6


def vet_flushing(
    start: Start, values: Sequence[Value], *, sooner: Start | None = None, seconds: float = 0.0
) -> Vetted:
    """`values` of the knob without flushing where a result that matters hangs on denormal numbers;
    what cannot be looked at is left to its trial. What comes `sooner` is looked at as well.
    """
    found = _found(start, _STEPS)
    if not found.differs and sooner is not None:
        found = _found(sooner, _LATE_STEPS, seconds)
    if not found.differs:
        return Vetted(values=tuple(values))
    place = f" at {os.path.basename(found.place.path)}:{found.place.line}" if found.place else ""
    reason = (
        f"numbers below 1.2e-38 matter{place}: with zeros in their place a result of up to "
        f"{found.size:.2g} is another there"
    )
    return Vetted(values=tuple(each for each in values if not each), reason=reason)


def _found(start: Start, steps: int, seconds: float = 0.0) -> Flushed:
    """What so many steps show, in so many seconds; nothing where they cannot be looked at."""
    try:
        found = watched(start, {}, FLUSHING, steps=steps, most_seconds=seconds)
    except (NotPossible, RunEnded):
        return Flushed()
    assert isinstance(found, Flushed), found
    return found
