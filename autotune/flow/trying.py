"""The second stage: configurations in fresh processes, as the study asks for them."""

import hashlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from autotune.flow.context import TRIAL_SECONDS, TRIAL_SHARE, Context
from autotune.knobs import unobserved
from autotune.knobs.knob import Config
from autotune.measurement.benchmark import time_run
from autotune.measurement.measurement import Failure, Measurement
from autotune.measurement.statistics import throughput
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.trials.study import Study
from autotune.trials.trial import Trial

# A trial ends early when even the top of its interval is this far below the best one's bottom.
HOPELESS = 0.9
FEWEST_WINDOWS = 3
# A trial sees at least so many steps, however slow they are.
FEWEST_STEPS = 4
# The program as it is and the first plans may use up what was kept back for judging.
FEWEST_TRIALS = 3


def try_configs(
    context: Context, profiled: Profile, space: Space, baseline: Measurement
) -> list[Trial]:
    """Trials until the plan, the patience, their number or the budget's share is used up."""
    options = context.options
    study = Study(space, profiled, key=_key(context), storage=_storage(context), seed=options.seed)
    if study.trials:
        tried = f"{len(study.trials)} trial{'s' * (len(study.trials) > 1)}"
        context.listener.stage(f"going on after {tried} of an earlier search")
    ends = context.trials_deadline
    most = options.trials or sys.maxsize
    while space.choices and len(study.trials) <= most:
        now = time.monotonic()
        if now > context.deadline or (now > ends and len(study.trials) >= FEWEST_TRIALS):
            break
        asked = study.ask()
        if asked is None:
            break
        number, config = asked
        began = time.monotonic()
        context.listener.trial_begins(number, config, ends - began, study.best)
        outcome = _measure(context, profiled, config, study.best) if config else baseline
        if isinstance(outcome, Measurement):
            unknown = tuple(space.doubts[name] for name in config if name in space.doubts)
            outcome = replace(outcome, doubts=(*outcome.doubts, *unknown))
        seconds = time.monotonic() - began
        trial = Trial(number=number, config=config, outcome=outcome, seconds=seconds)
        study.tell(trial)
        context.listener.trial_ended(trial, study.best)
    return study.trials or [Trial(number=0, config={}, outcome=baseline, seconds=0.0)]


def _measure(
    context: Context, profiled: Profile, config: Config, best: Trial | None
) -> Measurement | Failure:
    known = best.outcome if best else None
    floor = HOPELESS * known.interval[0] if isinstance(known, Measurement) else 0.0
    outcome = time_run(
        lambda: context.bench.start(config),
        seconds=max(
            context.seconds(TRIAL_SHARE, TRIAL_SECONDS), FEWEST_STEPS * profiled.step_seconds
        ),
        cores=context.machine.cores,
        warm_seconds=context.warm_seconds,
        deadline=context.trials_deadline,
        enough=lambda windows: len(windows) >= FEWEST_WINDOWS and throughput(windows)[1][1] < floor,
    )
    if isinstance(outcome, Measurement) and (missing := unobserved(config, outcome.seen)):
        return Failure(kind="void", reason=missing[0])
    return outcome


def _key(context: Context) -> str:
    """The same program, arguments, machine and versions: trials that can be compared."""
    target, machine = context.target, context.machine
    facts = {
        "source": target.source_sha256,
        "arguments": target.arguments,
        "machine": [machine.device, machine.device_name, machine.cores],
        "versions": machine.versions,
        "seed": context.options.seed,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    return f"{target.name}-{digest[:16]}"


def _storage(context: Context) -> Path | str | None:
    """A journal below the output directory by default; memory where nothing is to be written."""
    options = context.options
    if options.storage is not None:
        return options.storage
    return options.out / "study.journal" if options.out else None
