"""The two best trials once more, in turns: each was timed in an hour and a process of its own."""

import math
import time
from collections.abc import Sequence

from autotune.flow.context import Context
from autotune.knobs import by_name
from autotune.knobs.knob import Config, Semantics
from autotune.measurement.interleaved.turns import Turns, take_turns, turn_seconds_of
from autotune.measurement.ratios import FEWEST_TURNS_PER_PROCESS, ratio_in_turns
from autotune.profiling.profile import Profile
from autotune.result import Rematch
from autotune.trials.planner import Ranked
from autotune.trials.trial import Trial

# Further apart than this, in standard deviations of their difference, the first is the best.
CLOSE = 2.0
FEWEST_TURNS = 3
# Within this share of the speed, which such turns cannot tell from none, fewer settings are better,
# and of as many those of which fewer are of other numbers: each is to be read by someone.
NEXT_TO_NOTHING = 0.02
FIRST, SECOND = "first", "second"


def settle(
    context: Context, profiled: Profile, ranked: Sequence[Ranked]
) -> tuple[Trial | None, Rematch | None]:
    """The best of `ranked`, and how the first two came out in turns where they are close and there
    is time for it.
    """
    if not ranked:
        return None, None
    best = ranked[0].trial
    if len(ranked) < 2 or not _is_open(ranked[0], ranked[1]):
        return best, None
    second = ranked[1].trial
    turn_seconds = turn_seconds_of(profiled.step_seconds)
    seconds = best.seconds + second.seconds + 2 * FEWEST_TURNS_PER_PROCESS * turn_seconds
    if time.monotonic() + seconds > context.deadline - _judging_seconds(context):
        return _by_trials(ranked[0], ranked[1]), None
    context.listener.stage("measuring the two best once more, in turns")
    with context.device.held():
        turns = take_turns(
            {
                FIRST: lambda: context.bench.start(best.config),
                SECOND: lambda: context.bench.start(second.config),
            },
            rounds=1,
            deadline=context.deadline - _judging_seconds(context),
            turn_seconds=turn_seconds,
            warm_seconds=context.warm_seconds,
            together=True,
            after_round=lambda _: True,
        )
    return _winner(turns, best, second, context.machine.cores)


def _is_open(first: Ranked, second: Ranked) -> bool:
    """Whether either may be the best, and both are more than the program as it is."""
    apart = (first.mean - second.mean) / math.hypot(first.sd, second.sd, 1e-9)
    return bool(first.trial.config and second.trial.config) and apart < CLOSE


def _by_trials(first: Ranked, second: Ranked) -> Trial:
    """The best where there is no time for turns."""
    is_lighter = _burden(second.trial.config) < _burden(first.trial.config)
    as_fast = first.mean - second.mean < NEXT_TO_NOTHING
    return (second if as_fast and is_lighter else first).trial


def _judging_seconds(context: Context) -> float:
    """What is kept back for the verdict: the rematch takes a third of its share at most."""
    return context.verdict_share * context.options.budget_seconds * 2 / 3


def _winner(turns: Turns, best: Trial, second: Trial, cores: int) -> tuple[Trial, Rematch | None]:
    trials, numbers = {FIRST: best, SECOND: second}, (best.number, second.number)
    if turns.failures:
        winner = second if SECOND not in turns.failures else best
        failed = tuple(trials[name].number for name in turns.failures)
        why = "; ".join(dict.fromkeys(each.reason.rstrip(".") for each in turns.failures.values()))
        return winner, Rematch(trials=numbers, taken=winner.number, failed=failed, reason=why)
    fair = turns.fair(0, cores=cores)[0] if turns.turns else {}
    both = FIRST in fair and SECOND in fair
    pairs = list(zip(fair[FIRST], fair[SECOND], strict=True)) if both else []
    if len(pairs) < FEWEST_TURNS:
        return best, None
    ratio = ratio_in_turns([pairs])
    own, its = _burden(best.config), _burden(second.config)
    handicap = NEXT_TO_NOTHING * ((own < its) - (own > its))  # of the second
    winner = second if math.log(ratio.estimate) > handicap else best
    return winner, Rematch(trials=numbers, ratio=ratio, taken=winner.number)


def _burden(config: Config) -> tuple[int, int]:
    """How many settings `config` has, and how many of other numbers."""
    others = [name for name in config if by_name(name).semantics is not Semantics.IDENTICAL]
    return len(config), len(others)
