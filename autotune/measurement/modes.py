"""Windows of one mode, from when what the mode before has left is gone."""

import time

from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.readings.bursts import fetched_ahead
from autotune.workload.seen import Seen
from autotune.workload.window import DRAIN, REPLAY_DEVICE, REPLAY_HOST, Window

WINDOWS_PER_MODE = 6
# Workers that use more than this share of a core in so many seconds (the system counts in ticks of
# 10 ms) still fill their queues.
FILLING_SECONDS, STILL_FILLING = 0.2, 0.1


def take_windows(
    run: ProcessRun, mode: str, seconds: float, *, seen: Seen, into: list[Window]
) -> None:
    """Windows of `mode` for `seconds`, which are added one by one.

    Raises:
        NotPossible: the program cannot be fed so.
        RunEnded: it ended or failed.
    """
    if mode == DRAIN:
        _draw_what_is_ready(run, seen)
    elif mode in (REPLAY_DEVICE, REPLAY_HOST):
        _pass_first_replays(run, mode, seen, seconds / 2)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or not into:
        into.append(run.window(seconds / WINDOWS_PER_MODE, mode=mode))


def _draw_what_is_ready(run: ProcessRun, seen: Seen) -> None:
    ahead = fetched_ahead(seen)
    while ahead > 0:
        ahead -= run.window(0.05, mode=DRAIN).steps


def _pass_first_replays(run: ProcessRun, mode: str, seen: Seen, seconds: float) -> None:
    """Replay for at most `seconds` until nothing but the loop computes: the first steps find cold
    caches, and workers, of whose batches none is taken any more, go on until their queues are full.
    """
    run.window(0.0, mode=mode, steps=2)
    ends = time.monotonic() + seconds
    while seen.loader is not None and seen.loader.num_workers and time.monotonic() < ends:
        passed = run.window(min(FILLING_SECONDS, seconds), mode=mode)
        if passed.worker_cpu_seconds <= STILL_FILLING * passed.seconds:
            break
