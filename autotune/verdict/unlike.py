"""Steps of two contestants that have other numbers of samples, though their settings change none:
an agent's own moves decide how many there are, say.
"""

import math

from autotune.measurement.interleaved.turns import Turns
from autotune.verdict.contestants import BASELINE

# What the ends of turns make of it.
_BY_CHANCE = 1.05


def unlike_steps(turns: Turns, name: str) -> float:
    """How many times as many samples a step of `name` has as one of the program as it is, in the
    turns of both; 1.0 where that may be chance, or a loader makes batches of one size: a step then
    has more of them, as where gradients are added up over more and more.

    Speeds are told by samples: they do not say which is faster where steps have others.
    """
    each = [_samples_per_step(turns, which) for which in (BASELINE, name)]
    loaders = [seen.loader for which in (BASELINE, name) if (seen := turns.seen.get(which))]
    sizes = {loader.batch_size for loader in loaders if loader is not None}
    if not all(each) or sizes - {None}:
        return 1.0
    times = each[1] / each[0]
    return times if abs(math.log(times)) > math.log(_BY_CHANCE) else 1.0


def unlike_said(times: float) -> str:
    """What is to be known of a ratio of their speeds; "" where they are alike."""
    if times == 1.0:
        return ""
    return (
        f" A step had {times:.2g} times as many samples as one of the program as it is, though the "
        "settings change none: the interval is as much wider."
    )


def _samples_per_step(turns: Turns, name: str) -> float:
    windows = [window for taken in turns.windows.get(name, ()) for window in taken]
    steps = sum(window.steps for window in windows)
    return sum(window.samples for window in windows) / steps if steps else 0.0
