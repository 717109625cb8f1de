"""A program run on, past the ends of its epochs, which are cut short: what its settings break late
shows there (the first checkpoint, a validation, what is saved at the end).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import ProcessRun, RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What it came to in so many `seconds` from its first step: its own end, a `failure`, or
    neither.
    """

    seconds: float
    ended: bool = False
    failure: Failure | None = None


def run_through(start: Callable[..., ProcessRun], *, batches: int, seconds: float) -> Through:
    """Run what `start` starts for at most so many `seconds`, each epoch of at most so many
    `batches`. What fails before its first step has failed after none.
    """
    run = start(epoch_batches=batches)
    began, over = math.inf, {"ended"}
    try:
        run.await_first_step()
        began, over = time.monotonic(), {"ended", "hung"}
        run.to_the_end(seconds)
    except RunEnded as end:
        failure = end.failure
    finally:
        run.kill()
    spent = max(0.0, time.monotonic() - began)
    if failure.kind in over:
        return Through(seconds=spent, ended=failure.kind == "ended")
    return Through(seconds=spent, failure=failure)
