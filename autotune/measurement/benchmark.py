"""Timing one live run: warm it up until it is stable, then take windows of it."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from autotune.measurement.doubts import doubts_of, doubts_of_device, starved
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.readings.bursts import fetched_ahead
from autotune.measurement.readings.memory import beside_bytes, whole_peak
from autotune.measurement.readings.telemetry import Sampled, sampled
from autotune.measurement.statistics import stable, throughput
from autotune.profiling.course import doubts_of_processes
from autotune.profiling.telemetry import Telemetry, joules_per_sample
from autotune.workload.seen import Seen
from autotune.workload.window import LiveRun, Window

# Warm-up: windows of 0.3 s or 3 steps until stable (measured: earlier windows are up to 3x slow), 6
# s at most.
WARM_WINDOW_SECONDS = 0.3
WARM_WINDOW_STEPS = 3
WARM_LIMIT_SECONDS = 6.0
TIMED_WINDOWS = 8
ATTEMPTS_ON_A_BUSY_MACHINE = 3
LATE_TIMES = 3.0  # a window in which a model is compiled again; others scatter by far less


def warm_up(
    run: LiveRun,
    windows: list[Window],
    *,
    drain_batches: int = 0,
    limit_seconds: float = WARM_LIMIT_SECONDS,
) -> None:
    """Run through a first epoch that is not to count, and then until windows are stable and
    `drain_batches` (what a loader had fetched ahead) are used up, or the limit; `windows` gets
    each, so that none is lost where the program ends meanwhile.
    """
    pass_first_epoch(run, windows)
    ends = time.monotonic() + limit_seconds
    while True:
        windows.append(run.window(WARM_WINDOW_SECONDS, steps=WARM_WINDOW_STEPS))
        drained = sum(window.steps for window in windows) >= drain_batches
        if time.monotonic() > ends or (
            drained and stable(windows, least_steps=max(1, drain_batches))
        ):
            return


def pass_first_epoch(run: LiveRun, windows: list[Window]) -> None:
    """Let a run train as many steps as fill the program's cache in memory, where it has one, and
    its loader's workers do not lose theirs at each epoch's end; `windows` gets each.

    Raises:
        RunEnded: it ended or failed meanwhile.
    """
    if not run.first_steps:
        return
    loader = run.seen().loader
    if loader is None or (loader.num_workers and not loader.persistent_workers):
        return
    steps, ends = 0, time.monotonic() + run.first_seconds
    while steps < run.first_steps and time.monotonic() < ends:
        windows.append(run.window(WARM_WINDOW_SECONDS, steps=WARM_WINDOW_STEPS))
        steps += windows[-1].steps


def time_run(
    start: Callable[[], ProcessRun],
    *,
    seconds: float,
    cores: int,
    warm_seconds: float = WARM_LIMIT_SECONDS,
    enough: Callable[[list[Window]], bool] | None = None,
    most_not_finite: float = 0.0,
    deadline: float = math.inf,
) -> Measurement | Failure:
    """Start a run on so many `cores` and time it for about `seconds` after its warm-up; started
    again while the machine is too busy, where that is over by `deadline`, of `time.monotonic()`.
    `enough` is shown the timed windows so far, once they hold all that the loader's workers had
    fetched ahead and fetched again, and may end the run early. `most_not_finite` is the share of
    the losses that may be infinite or no numbers.
    """
    outcome: Measurement | Failure = Failure(kind="busy", reason="not run")
    for _ in range(ATTEMPTS_ON_A_BUSY_MACHINE):
        began = time.monotonic()
        run = start()
        try:
            outcome = _time_once(run, seconds, cores, warm_seconds, enough)
            outcome = _trained(outcome, most_not_finite)
        finally:
            run.kill()
        busy = isinstance(outcome, Failure) and outcome.kind == "busy"
        now = time.monotonic()
        if not busy or now + (now - began) > deadline:
            break
    return outcome


def _time_once(
    run: ProcessRun,
    seconds: float,
    cores: int,
    warm_seconds: float,
    enough: Callable[[list[Window]], bool] | None,
) -> Measurement | Failure:
    warm: list[Window] = []
    timed: list[Window] = []
    warmed, device = False, Sampled()
    beside: list[int | None] = []
    try:
        run.await_first_step()
        seen = run.seen()
        beside.append(beside_bytes(run.pid, seen))
        warm_up(run, warm, drain_batches=fetched_ahead(seen), limit_seconds=warm_seconds)
        warmed, seen = True, run.seen()
        ends, burst = time.monotonic() + seconds, fetched_ahead(seen)
        with sampled(seen, run.pid) as device:
            while time.monotonic() < ends:
                if enough and sum(window.steps for window in timed) >= burst and enough(timed):
                    break
                timed.append(run.window(seconds / TIMED_WINDOWS, steps=1))
        seen = run.seen()  # by now it may have begun another epoch
        beside.append(beside_bytes(run.pid, seen))
    except RunEnded as end:
        timed += [end.window] if end.window else []
        if not warmed:  # all that it ran is what there is
            warm, timed = [], [*warm, *timed]
        timed = timed or warm[-1:]
        if end.failure.kind != "ended" or not timed:
            return end.failure
    outcome = _measurement(run, seen, warm, timed, cores)
    if isinstance(outcome, Failure):
        return outcome
    outcome = replace(outcome, peak_bytes=whole_peak(seen, timed, beside))
    return _with_telemetry(outcome, device.telemetry)


def _with_telemetry(outcome: Measurement, telemetry: Telemetry | None) -> Measurement:
    joules = joules_per_sample(telemetry, outcome.windows)
    return replace(
        outcome,
        doubts=(*outcome.doubts, *doubts_of_device(telemetry)),
        joules_per_sample=joules if outcome.seen.gpus == 1 else None,
    )


def _measurement(
    run: ProcessRun, seen: Seen, warm: list[Window], timed: list[Window], cores: int
) -> Measurement | Failure:
    if seen.is_compiled:
        late = _late_compilations(timed)
        warm, timed = [*warm, *timed[:late]], timed[late:]
    sound = [window for window in timed if not starved(window, cores=cores)]
    if len(sound) * 2 <= len(timed):
        reason = "other work, here or on its host, had the processors for half of its time or more"
        return Failure(kind="busy", reason=reason)
    estimate, interval = throughput(sound)
    return Measurement(
        samples_per_second=estimate,
        interval=interval,
        windows=tuple(timed),
        seen=seen,
        startup_seconds=run.startup_seconds,
        peak_bytes=None,
        losses=tuple(chain.from_iterable(window.losses for window in (*warm, *timed))),
        doubts=(*doubts_of(timed, cores=cores), *doubts_of_processes(seen)),
    )


def _late_compilations(timed: list[Window]) -> int:
    """How many windows pass before a model is compiled for the last time, though its warm-up was
    over: up to the last one, in the first half, that took several times as long as those after it.
    """
    rates = [window.samples_per_second for window in timed]
    half = range(len(timed) // 2)
    slow = (at for at in half if LATE_TIMES * rates[at] < min(rates[at + 1 :]))
    return max(slow, default=-1) + 1


def _trained(outcome: Measurement | Failure, most_not_finite: float) -> Measurement | Failure:
    """`outcome`, a failure where too many of its losses are no numbers, or no weight has moved."""
    if isinstance(outcome, Measurement) and outcome.moves_no_weights:
        reason = "gradients were infinite or not a number at any scale: every step was left out"
        return Failure(kind="not_finite", reason=reason)
    losses = outcome.losses if isinstance(outcome, Measurement) else ()
    wrong = sum(not math.isfinite(loss) for loss in losses)
    if wrong <= most_not_finite * len(losses):
        return outcome
    return Failure(kind="not_finite", reason="the loss became infinite or not a number")
