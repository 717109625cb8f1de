"""Denormal numbers taken for zero, held to their promise in a run that is not timed: no result that
matters may be another for it.
"""

import os
from collections.abc import Sequence

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetted import Start, Vetted
from autotune.workload.found import Flushed
from autotune.workload.window import FLUSHING

_STEPS = 2


def vet_flushing(start: Start, values: Sequence[Value]) -> Vetted:
    """`values` of the knob without flushing where a result that matters hangs on denormal numbers;
    what cannot be looked at is left to its trial.

    Args:
        start: starts the program with settings.
        values: of the knob `flush_denormal`.
    """
    run = start({})
    try:
        found = run.watch(FLUSHING, steps=_STEPS).found
    except (NotPossible, RunEnded):
        return Vetted(values=tuple(values))
    finally:
        run.kill()
    assert isinstance(found, Flushed), found
    if not found.differs:
        return Vetted(values=tuple(values))
    place = f" at {os.path.basename(found.place.path)}:{found.place.line}" if found.place else ""
    reason = (
        f"numbers below 1.2e-38 matter{place}: with zeros in their place a result of up to "
        f"{found.size:.2g} is another there"
    )
    return Vetted(values=tuple(each for each in values if not each), reason=reason)
