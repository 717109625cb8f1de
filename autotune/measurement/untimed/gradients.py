"""Freed gradients held to their promise in a run that is not timed: zeros in their place must not
be another training.
"""

import functools
from collections.abc import Sequence

from autotune.knobs.knob import Config, Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetted import TOO_LITTLE_TIME, Start, Vetted, watched
from autotune.workload.window import GRADIENTS

# Parts of a model that are trained in turns show it within so many steps; fewer tell too little.
MOST_STEPS, FEWEST_STEPS = 30, 8

_IN_TURNS = (
    "some weights have no gradient in some steps, or had none yet: a gradient of zeros may still "
    "move them, by momentum or weight decay, and none does not"
)
_HELD = "the program, or a library, holds on to its gradients: freed, it may go on with dead ones"
_NOT_SEEN = "whether every weight has a gradient in every step could not be seen"
_FREED: Config = {"set_to_none": True}


def vet_freed_gradients(
    start: Start,
    values: Sequence[Value],
    own: Value,
    *,
    step_seconds: float,
    seconds: float,
    most_seconds: float,
    sooner: Start | None = None,
) -> Vetted:
    """Both `values`, freed gradients and zeros, where they are the same training; else its `own`.

    They are where each weight has a gradient in every step of its optimizer, and where nothing but
    the weights holds them. A weight without one yet may have one later, and none again. Steps of
    `step_seconds` are looked at for `seconds` at the least, and in `most_seconds`; what comes
    `sooner` is looked at as well.
    """
    steps = min(MOST_STEPS, int(most_seconds / step_seconds))
    if steps < FEWEST_STEPS:
        reason = f"{_NOT_SEEN} {TOO_LITTLE_TIME}"
    else:
        look = functools.partial(_refusal, steps=steps, seconds=seconds)
        reason = look(start, {}) or look(start, _FREED)
        if not reason and sooner is not None:
            later = look(sooner, _FREED, most_seconds=most_seconds)
            reason = "" if later.startswith(_NOT_SEEN) else later  # as it is, it may fail so
    return Vetted(values=(own,) if reason else tuple(values), reason=reason)


def _refusal(
    start: Start, config: Config, *, steps: int, seconds: float, most_seconds: float = 0.0
) -> str:
    """Why not, by a run with `config` that is `watched` for so long."""
    try:
        found = watched(
            start, config, GRADIENTS, steps=steps, seconds=seconds, most_seconds=most_seconds
        )
    except (NotPossible, RunEnded) as why:
        return f"{_NOT_SEEN}: {why}"
    if not isinstance(found, tuple):
        return f"{_NOT_SEEN}: no optimizer was seen to step"
    lost, held = found
    if config:
        return _IN_TURNS if lost else ""
    return _HELD if held else ""  # what holds a gradient holds the one that the next step fills
