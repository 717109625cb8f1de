"""A program run on, past the ends of its epochs, which are cut short: what its settings break late
shows there (the first checkpoint, a validation, what is saved at the end).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import SLOW_STEPS, ProcessRun, RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What it came to in so many `seconds` from its first step: its own end, a `failure` after so
    many `steps`, or neither.
    """

    seconds: float
    ended: bool = False
    failure: Failure | None = None
    steps: int = 0


def run_through(
    start: Callable[..., ProcessRun], *, batches: int, seconds: float, steps: int = 0
) -> Through:
    """Run what `start` starts for at most so many `seconds`, each epoch of at most so many
    `batches`; no further than to so many `steps`, where these are given. What fails before its
    first step has failed after none; a disk that checkpoints have filled, which come sooner here,
    is no failure.
    """
    run = start(epoch_batches=batches)
    began, over, end = math.inf, {"ended", "no_space"}, None
    try:
        run.await_first_step()
        began, over = time.monotonic(), {"ended", "hung", "no_space"}
        if steps > 1:
            run.limit(seconds / SLOW_STEPS)
            run.window(0.0, steps=steps - 1)
        elif not steps:
            run.to_the_end(seconds)
    except RunEnded as ended:
        end = ended
    finally:
        run.kill()
    spent = max(0.0, time.monotonic() - began)
    if end is None:
        return Through(seconds=spent, steps=steps)
    if end.failure.kind in over:
        return Through(seconds=spent, ended=end.failure.kind == "ended")
    return Through(seconds=spent, failure=end.failure, steps=end.steps)
