"""One trial: a configuration, or the program as it is, timed in a process of its own."""

import math
import time
from collections.abc import Sequence

from autotune.flow.context import Context
from autotune.knobs import unobserved
from autotune.knobs.batch_size import growth
from autotune.knobs.knob import Config
from autotune.measurement.benchmark import time_run
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.readings.memory import left_out
from autotune.measurement.readings.storage import reads_notably
from autotune.measurement.statistics import throughput
from autotune.outputs.wording import counted
from autotune.profiling.profile import Profile
from autotune.trials.planner import PROCESS_SD, Ranked
from autotune.workload.window import Window

# A trial ends early when even the top of its interval lies below the bottom of the best one's, by
# more than two processes of one program differ.
LOST = 1 - PROCESS_SD
FEWEST_WINDOWS = 3
# A trial sees at least so many steps, however slow they are.
FEWEST_STEPS = 4
# At most: the program as it is may then come to samples that its profile has not read.
TIMED_AGAIN = 2
# A program may have some losses that are no numbers; one that has more than this share diverges.
MOST_NOT_FINITE = 0.5


def as_it_is(context: Context, profiled: Profile, baseline: Measurement) -> Measurement:
    """The program as it is: from its profile, or measured again where that may have met a bad
    moment of the machine, or read from storage what later runs find in memory, and there is time.
    """
    likely_seconds = profiled.startup_seconds + 2 * FEWEST_STEPS * profiled.step_seconds
    found = baseline
    for _ in range(TIMED_AGAIN):
        unlike_later = found.is_shaken if found is baseline else reads_notably(found.windows)
        if not unlike_later or time.monotonic() + likely_seconds > context.trials_deadline:
            break
        again = measured(context, profiled, baseline, {}, ())
        if not isinstance(again, Measurement):
            break
        found = again
    return found


def measured(
    context: Context,
    profiled: Profile,
    baseline: Measurement,
    config: Config,
    ranked: Sequence[Ranked],
) -> Measurement | Failure:
    """A trial of `config`, ended early where it is lost against the best of `ranked`."""
    best = ranked[0].trial.outcome if ranked else None
    floor = LOST * best.interval[0] if isinstance(best, Measurement) else 0.0

    def is_lost(windows: Sequence[Window]) -> bool:
        return len(windows) >= FEWEST_WINDOWS and throughput(windows)[1][1] < floor

    diverging = any(not math.isfinite(loss) for loss in baseline.losses)
    outcome = time_run(
        lambda: context.bench.start(config, compiles_until=context.compiling_deadline),
        seconds=max(context.trial_seconds, FEWEST_STEPS * profiled.step_seconds),
        cores=context.machine.cores,
        warm_seconds=context.warm_seconds,
        deadline=context.trials_deadline,
        enough=is_lost,
        most_not_finite=MOST_NOT_FINITE if diverging else 0.0,
    )
    if isinstance(outcome, Measurement) and (missing := unobserved(config, outcome.seen)):
        return Failure(kind="void", reason=missing[0])
    return _with_all_batches(outcome, baseline, growth(config, baseline.seen))


def _with_all_batches(
    outcome: Measurement | Failure, baseline: Measurement, larger: float = 1.0
) -> Measurement | Failure:
    """`outcome`, a failure where it left out batches for which there was no memory, as the program
    as it is does not. Its batches are `larger` by that factor.
    """
    seen, own = baseline.seen, [baseline.windows]
    if isinstance(outcome, Failure) or left_out(own, own, seen):
        return outcome
    if not (times := left_out([outcome.windows], own, seen, larger=larger)):
        return outcome
    ran = f"the device's memory ran out {counted(times, 'time')}"
    reason = f"{ran}, and it went on without those batches"
    return Failure(kind="out_of_memory", reason=reason)


def diverges(baseline: Measurement) -> bool:
    """Whether most losses are infinite or no numbers, or every step is left out for its gradients;
    those of the few steps in which a scaler looks for its scale are not.
    """
    wrong = sum(not math.isfinite(loss) for loss in baseline.losses)
    return wrong > MOST_NOT_FINITE * len(baseline.losses) or baseline.moves_no_weights
