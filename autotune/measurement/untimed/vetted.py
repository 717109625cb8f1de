"""What runs that are not timed have said of a knob's values.

What vets them is told what `start`s the program with settings, and the `values`; some, what does so
that what the program does late comes `sooner`, and for how many seconds a look may last.
"""

from collections.abc import Callable
from dataclasses import dataclass

from autotune.knobs.knob import Config, Value
from autotune.measurement.processes.process import WATCHED_STEPS_TAKE_AT_MOST, ProcessRun
from autotune.profiling.profile import Doubt
from autotune.source.edits import Place
from autotune.source.refusals.settings import Setting

Start = Callable[[Config], ProcessRun]
TOO_LITTLE_TIME = "in the time that the budget has for it: a larger budget has more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetted:
    """The values of a knob that keep its promise, why the others do not, and what could not be
    found out. Of workers, why a sample `depends` on those that were made before it, whether reading
    leaves what samples are made from as it was (`steady`), the `settings` that it leaves alone, and
    where the program's own functions begin that its steps run.
    """

    values: tuple[Value, ...]
    reason: str = ""
    depends: str = ""
    steady: bool = False
    settings: tuple[Setting, ...] = ()
    running: tuple[Place, ...] = ()
    streams: tuple[str, ...] = ()
    doubt: Doubt | None = None


def watched(
    start: Start,
    config: Config,
    mode: str,
    *,
    steps: int,
    seconds: float = 0.0,
    most_seconds: float = 0.0,
) -> object:
    """What is found out in so many steps of a run of its own, and so many `seconds`; in no more
    than `most_seconds`, where these are given.

    Raises:
        RunEnded: it ended, crashed, hung or was killed.
        NotPossible: this is not offered here.
    """
    run = start(config)
    try:
        if most_seconds:
            run.await_first_step()
            run.limit(most_seconds / (WATCHED_STEPS_TAKE_AT_MOST * (steps + 1)))
        return run.watch(mode, steps=steps, seconds=seconds).found
    finally:
        run.kill()
