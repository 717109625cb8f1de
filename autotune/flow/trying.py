"""The second stage: configurations in fresh processes, as the study asks for them."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import UsageError
from autotune.flow.context import TRIAL_SECONDS, Context
from autotune.flow.measuring import as_it_is, diverges, measured
from autotune.flow.rematch import settle
from autotune.flow.sameness import study_key
from autotune.knobs.knob import Config
from autotune.measurement.measurement import Measurement
from autotune.outputs.wording import counted
from autotune.profiling.profile import Doubt, Profile
from autotune.result import Rematch
from autotune.trials.planner import Ranked
from autotune.trials.space import Space
from autotune.trials.trial import BUDGET, DIVERGES, NOTHING, TRIALS, Ending, Trial

if TYPE_CHECKING:
    from autotune.trials.study import Study

# One measurement of a program was seen to be a fifth above the next.
NEAR = 0.8
# The program as it is and the first plans may use up what was kept back for judging, as may all of
# which none could be measured.
FEWEST_TRIALS = 3
# Judging starts the program as it is, the best settings, and what is handed back for a look at it.
STARTS_OF_JUDGING = 3
# A search that is to take so many times its budget says so beforehand; what is needed is a guess.
NOTABLY_OVER = 1.1

_OF_UNKNOWN_SIZE = Doubt(
    name="peak memory unknown",
    evidence="How much memory it needs is not known: it is not handed back where that is limited.",
    advice="To have it all the same, search without the limit.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What trying gave: the trials, those of them that this search did not make itself, the one to
    judge, and why there are no more of them; `ranked` are those that may be handed back, the one
    that is most likely fastest first.
    """

    trials: tuple[Trial, ...]
    best: Trial
    ending: Ending
    ranked: tuple[Trial, ...] = ()
    rematch: Rematch | None = None
    earlier: tuple[Trial, ...] = ()

    @property
    def tried(self) -> bool:
        """Whether there is any trial of a setting."""
        return any(trial.config for trial in self.trials)

    def start_seconds(self, config: Config) -> float:
        """By how much `config`, or else the best, starts slower than what started fastest."""
        outcomes = [trial.outcome for trial in (*self.trials, self.best)]
        starts = [each.startup_seconds for each in outcomes if isinstance(each, Measurement)]
        of_config = (trial.outcome for trial in self.trials if trial.config == config)
        best = next(of_config, self.best.outcome)
        return best.startup_seconds - min(starts) if isinstance(best, Measurement) else 0.0


def overtime(context: Context, profiled: Profile) -> float | None:
    """What the whole search takes at the least, the program as it is being measured already; None
    where that is about within the budget, or where it is used up before any trial.
    """
    runs = FEWEST_TRIALS - 1 + STARTS_OF_JUDGING
    starting = runs * later_start_seconds(profiled)
    measuring = runs * (context.run_seconds + TRIAL_SECONDS[0])
    needed = context.spent_seconds + starting + measuring
    budget_seconds = context.options.budget_seconds
    tries = starting > measuring or context.spent_seconds < budget_seconds
    return needed if tries and needed > NOTABLY_OVER * budget_seconds else None


def later_start_seconds(profiled: Profile) -> float:
    """What a start takes that finds compiled what the first one had to compile."""
    return profiled.startup_seconds - profiled.compiling_seconds


def open_study(context: Context, profiled: Profile, space: Space, baseline: Measurement) -> "Study":
    """The trials of this program so far, of which there may be none."""
    from autotune.trials.study import Study  # it needs Optuna

    options = context.options
    return Study(
        space,
        profiled,
        key=study_key(context, profiled.seen),
        storage=_storage(context),
        fresh=options.fresh,
        sampler=options.sampler,
        seed=options.seed,
        patience_seconds=context.patience_seconds,
        memory_limit_bytes=options.memory_limit_bytes,
        baseline=baseline,
        trial_seconds=profiled.startup_seconds + context.run_seconds + context.trial_seconds,
    )


def try_configs(
    context: Context, profiled: Profile, space: Space, baseline: Measurement, study: "Study"
) -> Found:
    """Trials until the plan, the patience, their number or the budget's share is used up; then the
    two best in turns, where they are too close to tell.
    """
    as_it_is = Trial(number=0, config={}, outcome=baseline, seconds=0.0)
    _tell_of_earlier(context, study)
    ending = _try_all(context, profiled, space, baseline, study)
    with suppress(UsageError):  # what was found stands
        study.look()
    best, rematch = settle(context, profiled, study.ranked)
    return Found(
        trials=tuple(study.trials) or (as_it_is,),
        best=_to_judge(context, best or as_it_is, study.ranked),
        ending=ending,
        ranked=tuple(each.trial for each in study.ranked),
        rematch=rematch,
        earlier=tuple(study.of_others),
    )


def _tell_of_earlier(context: Context, study: "Study") -> None:
    """That trials go on, and the program as it is, which they are compared with."""
    if not study.trials:
        return
    known = counted(len(study.trials), "earlier trial")
    context.listener.stage(f"going on after {known}, and the program as timed then")
    for trial in study.trials:
        if not trial.config:
            context.listener.trial_ended(trial, study.best)


def _to_judge(context: Context, best: Trial, ranked: Sequence[Ranked]) -> Trial:
    """What takes turns with the program as it is: where that is itself the best, and there is time,
    the next best, unless it is far behind. The program as it is was measured once, perhaps in a
    lucky moment.
    """
    if best.config or time.monotonic() > context.trials_deadline:
        return best
    floor = NEAR * getattr(best.outcome, "samples_per_second", 0.0)
    others = (each.trial for each in ranked if each.trial.config)
    near = (each for each in others if getattr(each.outcome, "samples_per_second", 0.0) > floor)
    return next(near, best)


def _try_all(
    context: Context, profiled: Profile, space: Space, baseline: Measurement, study: "Study"
) -> Ending:
    ending, told = None, ""
    if diverges(baseline):
        wrong = "takes no step" if baseline.moves_no_weights else "has losses that are no numbers"
        reason = f"The training as it is {wrong}: until that is mended nothing compares with it."
        ending = Ending(why=DIVERGES, reason=reason)
    while study.space.choices and ending is None:
        with context.device.held():  # asked once it is free: by then others may have found more
            ending = _try_next(context, profiled, space, baseline, study)
        if study.awaited and study.awaited != told:
            context.listener.stage(f"waiting for {study.awaited}")
        told = study.awaited
        ends = trials_end(context, profiled, study.best) if study.trials else context.deadline
        study.await_others(ends - time.monotonic())
    reason = "There was nothing to search: every knob was left out."
    return ending or Ending(why=NOTHING, reason=reason)


def _try_next(
    context: Context, profiled: Profile, space: Space, baseline: Measurement, study: "Study"
) -> Ending | None:
    """One more trial; why there is none, where there is none, and that is known."""
    began, ends = time.monotonic(), trials_end(context, profiled, study.best)
    most = context.options.trials or sys.maxsize
    study.look()  # it may have waited for the device
    if len(study.trials) > most:
        return Ending(why=TRIALS, reason=f"No more than {counted(most, 'trial')} were asked for.")
    enough = study.trials if study.awaited else _are_enough(study.trials)
    if began > context.deadline or (began > ends and enough):
        gone = f"was used up before {study.awaited} ended" if study.awaited else "is used up"
        reason = f"The budget's time for trials {gone}."
        reason += study.too_dear
        return Ending(why=BUDGET, reason=reason)
    asked = study.ask(seconds_left=context.deadline - began)
    if asked is None:
        return study.ending
    number, config = asked
    context.listener.trial_begins(number, config, ends - began, study.best)
    if config:
        outcome = measured(context, profiled, baseline, config, study.ranked)
    else:
        outcome = as_it_is(context, profiled, baseline)
    if isinstance(outcome, Measurement):
        unknown = [space.doubts[name] for name in config if name in space.doubts]
        if config and context.options.memory_limit_bytes and outcome.peak_bytes is None:
            unknown.append(_OF_UNKNOWN_SIZE)
        outcome = replace(outcome, doubts=(*outcome.doubts, *unknown))
    seconds = time.monotonic() - began
    trial = Trial(number=number, config=config, outcome=outcome, seconds=seconds)
    study.tell(trial)
    context.listener.trial_ended(trial, study.best)
    return None


def trials_end(context: Context, profiled: Profile, best: Trial | None) -> float:
    """When no further trial begins: what is kept back for judging is used too while nothing is
    ahead of the program as it is, but for what the shortest judging needs.
    """
    if best is None or best.config:
        return context.trials_deadline
    judging = STARTS_OF_JUDGING * (later_start_seconds(profiled) + context.run_seconds)
    return max(context.trials_deadline, context.deadline - judging)


def _are_enough(trials: Sequence[Trial]) -> bool:
    """Whether the first plans were tried, and there is one to judge."""
    measured = (each for each in trials if each.config and isinstance(each.outcome, Measurement))
    return len(trials) >= FEWEST_TRIALS and any(measured)


def _storage(context: Context) -> Path | str | None:
    """A journal below the output directory by default; memory where nothing is to be written."""
    options = context.options
    if options.storage is not None:
        return options.storage
    return options.out / "study.journal" if options.out else None
