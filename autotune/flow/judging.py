"""The last stage: what is handed back, timed in turns with the program as it is."""

import functools
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace

from autotune.diagnosis.finding import end
from autotune.flow.context import Context
from autotune.flow.controls import CONTROL_SECONDS, Left, Start, controls, pairs_of_seeds
from autotune.flow.emitting import tried_out
from autotune.flow.next_best import next_best, suspect
from autotune.flow.through import seen_through
from autotune.flow.trying import Found
from autotune.flow.unanswered import why_too_large, why_unknown, why_untried
from autotune.knobs import doubts, unconfirmed
from autotune.knobs.knob import Config, Semantics
from autotune.measurement.interleaved.turns import LossSeconds, Turns, take_turns, turn_seconds_of
from autotune.measurement.measurement import Measurement
from autotune.measurement.ratios import LOOKS
from autotune.measurement.readings.faults import calm_share
from autotune.measurement.workbench import Workbench
from autotune.outputs.patch import Emission
from autotune.outputs.wording import settings
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.trials.trial import Trial
from autotune.verdict import (
    BASELINE,
    DELIVERED,
    TUNED,
    Verdict,
    decide,
    is_decided,
)
from autotune.verdict.clear import MINIMUM_GAIN
from autotune.verdict.contestants import promised
from autotune.verdict.parity import Parity, may_be_chance, may_be_the_seeds
from autotune.workload.found import BESIDE
from autotune.workload.program.imported import files_that_run
from autotune.workload.program.target import OBJECTS, Target
from autotune.workload.window import AS_IS

# How long each contestant may run on for losses to compare: a share of the budget, within limits in
# seconds; for the fewest that say anything, and for more.
LOSSES_NEEDED = 0.08, (3.0, 10.0)
LOSSES_WANTED = 0.02, (1.0, 4.0)
# What the next best has of the budget to be judged, where the best trains otherwise: beyond its end
# if need be, but where starting it alone would take as long.
AGAIN_SHARE = 0.15
# A part of the settings that does nothing seldom comes out as fast as this: two processes of one
# program differ by 5 %.
SEEN_BY_CHANCE = 1.2
_STARTS = 2  # of a round of turns
# By which a thread waits for what it hands over to be taken.
_HANDS_OVER = re.compile(r"Queue\(")
_UNTOLD = "Whether chance explains that was not looked at, since no gain was told from none."


def judge(
    context: Context, profiled: Profile, space: Space, found: Found
) -> tuple[Verdict, Emission]:
    """The verdict on the best of what was `found` in `space`, and its source where it is worth
    handing back.
    """
    untried = why_untried(context, profiled, space, found)
    best = _shown(found.best)
    verdict, emission = _judged(context, profiled, best)
    limited = context.options.memory_limit_bytes is not None
    unknown = untried or why_unknown(profiled, found.trials, limited=limited)
    too_large = why_too_large(found.trials, context.options.memory_limit_bytes)
    if not best.config and unknown:
        verdict = replace(verdict, outcome="failed", reason=unknown)
    elif not best.config and too_large:
        verdict = replace(verdict, reason=too_large)
    elif not found.tried:
        unworthy = "No setting promises enough for a trial."
        verdict = replace(verdict, reason=unworthy if space.choices else found.ending.reason)
    if not verdict.is_withheld:
        return verdict, emission
    seconds = AGAIN_SHARE * context.options.budget_seconds
    in_time = context.deadline - time.monotonic() > seconds
    name = verdict.suspect or suspect(best.config, verdict.parity, found.trials)
    other = next_best(best, name, found, space, profiled.seen)
    fits = other in found.ranked or not limited  # of what was not tried nobody knows the peak
    if other and fits and (in_time or _STARTS * profiled.startup_seconds < seconds):
        again, its_emission = _judged(context.with_left(seconds), profiled, _shown(other))
        if again.outcome == "faster":
            named = "" if verdict.breaks else f"{settings(best.config)}: "  # it names them itself
            said = f"{named}{verdict.reason}"
            return replace(again, passed_over=said, suspect=name), its_emission
        verdict = replace(verdict, reason=f"{verdict.reason} {_of_the_next(other, again)}")
        other = other if again.is_open else None
    return replace(verdict, suspect=name if other else ""), emission


def _of_the_next(other: Trial, verdict: Verdict) -> str:
    """How what was judged in the place of the best came out, where that is no gain either."""
    if verdict.trains_otherwise:
        ended = "does not train the same either"
    elif verdict.is_withheld:
        ended = "cannot be handed back either"
    elif verdict.speedup:
        ended = f"came out {verdict.speedup.estimate:.2f}×"
    else:
        ended = "could not be timed"
    return f"The next best ({settings(other.config)}) {ended}."


def _judged(context: Context, profiled: Profile, best: Trial) -> tuple[Verdict, Emission]:
    """The verdict on `best`, and its source where it is worth handing back."""
    emission, whole = Emission(), False
    if best.config and context.target.kind != OBJECTS:
        emission, whole = tried_out(context, best.config, profiled.seen)
    turns, contestants = Turns(), dict[str, Start]()
    if best.config:
        contestants = _contestants(context.bench, best.config, emission, whole=whole)
        turns = _take_turns(context, profiled, best.config, contestants, whole=whole)

    def decided() -> Verdict:
        return decide(
            turns,
            best.config,
            cores=context.machine.cores,
            unobserved=lambda seen: unconfirmed(best.config, seen),
            named=settings(best.config),
            edits=emission.edits,
            may_differ=context.options.allow is Semantics.DIFFERENT,
        )

    verdict = decided()
    if parted := _parted(verdict, may_be_chance):
        exact = promised(turns, best.config) is Semantics.IDENTICAL
        own = turns.losses.get(BASELINE, ())[: max(parity.steps for parity in parted.values())]
        turns.controls = controls(context, context.bench.start, best.config, own, exact=exact)
        verdict = decided()
    verdict = _left_open(_with_seeds(context, turns, contestants, verdict, decided))
    emission = _handed_back(verdict, emission, failed=DELIVERED in turns.failures)
    return seen_through(context, profiled, best.config, verdict, emission)


def _left_open(verdict: Verdict) -> Verdict:
    """`verdict`, which without a gain says nothing of losses that chance may have parted."""
    if _gains(verdict):
        return verdict
    if (parity := verdict.parity) and may_be_chance(parity):
        verdict = replace(verdict, parity=_untold(parity))
    delivered = verdict.delivered
    if delivered and delivered.parity and may_be_chance(delivered.parity):
        untold = _untold(delivered.parity)
        delivered = replace(delivered, parity=untold, reason=untold.reason)
        verdict = replace(verdict, delivered=delivered)
    return verdict


def _untold(parity: Parity) -> Parity:
    return replace(parity, same_training=None, reason=f"{parity.reason} {_UNTOLD}")


def _with_seeds(
    context: Context,
    turns: Turns,
    contestants: dict[str, Start],
    verdict: Verdict,
    decided: Callable[[], Verdict],
) -> Verdict:
    """What is `decided` where each whose losses part is held against other seeds of its own; none
    after one that trains otherwise all the same.
    """
    left = Left(context.options.seconds(*CONTROL_SECONDS))
    for name in (TUNED, DELIVERED):
        parted = _parted(verdict, may_be_the_seeds)
        if name not in parted:
            continue
        own, other = contestants[BASELINE], contestants[name]
        turns.pairs[name] = list(pairs_of_seeds(context, parted[name], own, other, left))
        verdict = decided()
        if name in _parted(verdict, may_be_the_seeds):
            break
    return verdict


def _shown(best: Trial) -> Trial:
    """`best` without the settings that its run had but did not show: without, it was as fast."""
    if not isinstance(best.outcome, Measurement):
        return best
    unclear = doubts(best.config, best.outcome.seen)
    config = {name: value for name, value in best.config.items() if name not in unclear}
    return replace(best, config=config)


def _handed_back(verdict: Verdict, emission: Emission, *, failed: bool) -> Emission:
    """`emission` where it is worth it; one with a part of the settings may have `failed`, be
    slower, or train otherwise.
    """
    if verdict.outcome != "faster":
        return Emission()
    delivered = verdict.delivered
    if delivered is None or not emission.sources:
        return emission
    if failed or (delivered.parity and delivered.parity.same_training is False):
        return emission.withdrawn(delivered.reason)
    speedup = delivered.speedup
    if speedup and speedup.estimate < (SEEN_BY_CHANCE if speedup.low <= 1 else MINIMUM_GAIN):
        came_out = f"what the source can be given came out {speedup.estimate:.2f}×"
        at_least = f" (interval from {end(speedup.low)})" if speedup.low <= 1 else ""
        return emission.withdrawn(f"{came_out}{at_least}: too little without the other settings")
    return emission


def _parted(verdict: Verdict, may_be: Callable[[Parity], bool]) -> dict[str, Parity]:
    """Whose losses part, where that is what a gain falls with, and it `may_be` chance."""
    if not _gains(verdict):
        return {}
    delivered = verdict.delivered.parity if verdict.delivered else None
    found = {TUNED: verdict.parity, DELIVERED: delivered}
    return {name: parity for name, parity in found.items() if parity and may_be(parity)}


def _gains(verdict: Verdict) -> bool:
    return verdict.speedup is not None and verdict.speedup.low > 1


def _contestants(
    bench: Workbench, config: Config, emission: Emission, *, whole: bool
) -> dict[str, Start]:
    """What starts the program as it is and with its settings, and what was emitted: instead of the
    settings injected where it is the `whole` of them.
    """
    found: dict[str, Start] = {}
    found |= {BASELINE: bench.start, TUNED: functools.partial(bench.start, config)}
    if emission.sources:
        found[TUNED if whole else DELIVERED] = functools.partial(
            bench.start, sources=emission.sources, compiles=emission.compiles
        )
    return found


def _take_turns(
    context: Context,
    profiled: Profile,
    config: Config,
    contestants: dict[str, Start],
    *,
    whole: bool,
) -> Turns:
    """Turns of the program as it is and with its settings.

    Where the emitted program is the `whole` of them, it is the one that is judged; where it is not,
    the settings are injected, and what was emitted takes its turns beside them.
    """
    wanted = LossSeconds(
        needed=context.seconds(*LOSSES_NEEDED), wanted=context.seconds(*LOSSES_WANTED)
    )
    if promised(Turns(), config) is Semantics.DIFFERENT:  # of which no losses are compared
        wanted = LossSeconds(needed=0.0, wanted=0.0)
    context.listener.stage(f"judging {settings(config)} against the program as it is")
    turns = take_turns(
        contestants,
        rounds=LOOKS[-1],
        deadline=context.deadline,
        turn_seconds=turn_seconds_of(profiled.step_seconds),
        warm_seconds=context.warm_seconds,
        losses=wanted,
        after_round=lambda taken: is_decided(taken, cores=context.machine.cores),
    )
    turns.beside = thread_beside(context.target, profiled)
    plain = [each for each in profiled.windows if each.mode == AS_IS]
    timed = [each for taken in turns.windows.get(BASELINE, ()) for each in taken]
    turns.calm_share = calm_share(plain, timed)
    if whole and TUNED in turns.seen:
        turns.windows[DELIVERED] = turns.windows[TUNED]
        turns.seen[DELIVERED] = turns.seen[TUNED]
    return turns


def thread_beside(target: Target, profiled: Profile) -> str:
    """The function and line of a thread of the program's own that works beside its training, at a
    pace of its own; "" where none computes, where it draws from the training loader, or where the
    program has a queue: what is handed over by one is as much in each step, however fast those are.
    """
    line = next((each for each in profiled.lines if each.phase == BESIDE), None)
    loader = profiled.seen.loader
    if line is None or target.kind == OBJECTS or (loader is not None and loader.threaded):
        return ""
    texts = (text for _, text in files_that_run(target, profiled.seen.modules))
    if any(map(_HANDS_OVER.search, texts)):
        return ""
    return f"{line.function}, {os.path.basename(line.path)}:{line.line}"
