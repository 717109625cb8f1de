"""Freed gradients held to their promise in a run that is not timed: zeros in their place must not
be another training.
"""

from collections.abc import Sequence

from autotune.knobs.knob import Config, Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetted import Start, Vetted
from autotune.workload.window import GRADIENTS

# Parts of a model that are trained in turns show it within so many steps; fewer tell too little.
MOST_STEPS, FEWEST_STEPS = 30, 8

_IN_TURNS = (
    "some weights have no gradient in some steps: a gradient of zeros still moves them, by "
    "momentum or weight decay, and none does not"
)
_HELD = "the program holds on to its gradients itself: freed, it would go on with dead ones"
_NOT_SEEN = "whether every weight has a gradient in every step could not be seen"
# As it is, what holds a gradient holds the one that the next step fills again.
_LOOKS: tuple[tuple[Config, str], ...] = (({}, _HELD), ({"set_to_none": True}, _IN_TURNS))


def vet_freed_gradients(
    start: Start,
    values: Sequence[Value],
    own: Value,
    *,
    step_seconds: float,
    seconds: float,
    most_seconds: float,
) -> Vetted:
    """Both `values`, freed gradients and zeros, where they are the same training; else its `own`.

    They are where each weight has a gradient from its first one on in every step of its optimizer
    (before that neither is there), and where nothing but the weights holds them.

    Args:
        start: starts the program with settings.
        values: of the knob.
        own: the program's.
        step_seconds: how long a step of it takes.
        seconds: that are looked at, at the least.
        most_seconds: that the steps looked at may take, where these are more.
    """
    steps = min(MOST_STEPS, int(most_seconds / step_seconds))
    if steps < FEWEST_STEPS:
        reason = f"{_NOT_SEEN} in the time that the budget has for it: a larger budget has more"
    else:
        found = (_refusal(start, config, why, steps, seconds) for config, why in _LOOKS)
        reason = next(filter(None, found), "")
    return Vetted(values=(own,) if reason else tuple(values), reason=reason)


def _refusal(start: Start, config: Config, why_not: str, steps: int, seconds: float) -> str:
    run = start(config)
    try:
        wrong = run.watch(GRADIENTS, steps=steps, seconds=seconds).found
    except (NotPossible, RunEnded) as why:
        reason = why.failure.reason if isinstance(why, RunEnded) else str(why)
        return f"{_NOT_SEEN}: {reason}"
    finally:
        run.kill()
    if wrong is None:
        return f"{_NOT_SEEN}: no optimizer was seen to step"
    return why_not if wrong else ""
