"""Between space and trials: settings that promise the same training are held to it."""

import functools
import time

from autotune.flow.context import Context
from autotune.measurement.vetting import Vetted, vet_micro_batches, vet_workers
from autotune.profiling.profile import Profile
from autotune.trials.space import Space

# Drawing batches to compare them, as a share of the budget and within limits, in seconds; it is
# done four times.
DRAW_SHARE, DRAW_SECONDS = 0.01, (0.5, 3.0)


def vet(context: Context, profiled: Profile, space: Space) -> Space:
    """`space` without the workers that would deliver other data, and without micro-batches that
    would not add up to the same step; as it is where there is no time left to try any of them.
    """
    if time.monotonic() > context.deadline:
        return space
    loader = profiled.seen.loader
    if loader is not None and "num_workers" in space.choices:
        context.listener.stage("comparing what workers deliver with what the program is given")
        seconds = context.seconds(DRAW_SHARE, DRAW_SECONDS)
        workers = space.choices["num_workers"]
        vetted = vet_workers(context.bench.start, loader, workers, seconds=seconds)
        space = _narrowed(space, "num_workers", vetted)
    if "micro_batches" in space.choices:
        context.listener.stage("comparing the step of a divided batch with the whole batch's")
        parts = space.choices["micro_batches"]
        start = functools.partial(context.bench.start, injected=True)
        vetted = vet_micro_batches(start, profiled.seen, parts)
        space = _narrowed(space, "micro_batches", vetted)
    return space


def _narrowed(space: Space, name: str, vetted: Vetted) -> Space:
    return space.narrowed(name, vetted.values, vetted.reason, vetted.doubt)
