"""A program run on, past the ends of its epochs, which are cut short: what its settings break late
shows there (the first checkpoint, a validation, what is saved at the end).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import SLOW_STEPS, ProcessRun, RunEnded
from autotune.source.edits import Place
from autotune.workload.seen import Seen
from autotune.workload.window import Window

# What is said of it by then is kept, should the next such stretch not come to its end in time.
STRETCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What it came to in so many `seconds` from its first step: its own end, a `failure` after so
    many `steps`, or neither; its `windows`, and what was `seen` of it last.
    """

    seconds: float
    ended: bool = False
    failure: Failure | None = None
    steps: int = 0
    windows: tuple[Window, ...] = ()
    seen: Seen | None = None

    @property
    def not_come_to(self) -> tuple[Place, ...]:
        """See `Window`; by its end."""
        return self.windows[-1].not_come_to if self.windows else ()


def run_through(
    start: Callable[..., ProcessRun],
    *,
    batches: int,
    seconds: float,
    steps: int = 0,
    losses: float = math.inf,
) -> Through:
    """Run what `start` starts for at most so many `seconds`, each epoch of at most so many
    `batches`; no further than to so many `steps`, where these are given, or `losses`. What fails
    before its first step has failed after none; a disk that checkpoints have filled, which come
    sooner here, is no failure.
    """
    run = start(epoch_batches=batches)
    began, over, end = math.inf, {"ended", "no_space"}, None
    windows, seen = list[Window](), None
    try:
        run.await_first_step()
        began, over = time.monotonic(), {"ended", "hung", "no_space"}
        if steps > 1:
            run.limit(seconds / SLOW_STEPS)
            run.window(0.0, steps=steps - 1)
        elif not steps:
            seen = run.seen()
            _train(run, windows, began + seconds, losses)
            seen = run.seen()  # what it does late may be told by it
    except RunEnded as ended:
        end = ended
        windows += [end.window] if end.window else []
    finally:
        run.kill()
    spent = max(0.0, time.monotonic() - began)
    found = Through(seconds=spent, steps=steps, windows=tuple(windows), seen=seen)
    if end is None:
        return found
    if end.failure.kind in over:
        return replace(found, steps=0, ended=end.failure.kind == "ended")
    return replace(found, failure=end.failure, steps=end.steps)


def _train(run: ProcessRun, windows: list[Window], ends: float, losses: float) -> None:
    """Add its `windows` until that moment, or to so many losses."""
    while sum(len(each.losses) for each in windows) < losses:
        if (left := ends - time.monotonic()) <= 0:
            return
        run.limit(left / SLOW_STEPS)
        windows.append(run.window(min(STRETCH_SECONDS, left)))
