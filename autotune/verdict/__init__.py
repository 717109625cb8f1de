"""Best against baseline, measured in turns: is it faster, and is it the same training?"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autotune.diagnosis.finding import end
from autotune.knobs.knob import Config
from autotune.measurement.interleaved.turns import Turns
from autotune.measurement.ratios import LOOKS, Ratio, confidence_per_look, ratio_in_turns, widened
from autotune.measurement.readings.faults import scatter_of, unknown_of
from autotune.measurement.statistics import Timed, rate
from autotune.source.edits import EditOutcome
from autotune.verdict.answer import Delivered, Verdict, held_to
from autotune.verdict.clear import MINIMUM_GAIN, ROUGH, WORTH_MORE_TIME, is_clear
from autotune.verdict.contestants import (
    BASELINE,
    DELIVERED,
    TUNED,
    known_otherwise,
    parity_in_turns,
    unlike_said,
    unlike_steps,
    windows_of_both,
)
from autotune.verdict.parity import Parity
from autotune.verdict.validations import Validations, validations_in
from autotune.workload.seen import Seen
from autotune.workload.window import page_faults_per_second

__all__ = [
    "BASELINE",
    "DELIVERED",
    "TUNED",
    "Delivered",
    "Parity",
    "Ratio",
    "Verdict",
    "decide",
    "is_decided",
]

# With more of the turns spoilt than this, those that are left were picked by the neighbours.
MOST_LEFT_OUT = 0.5
FEWEST_TURNS = 3

Round = Mapping[str, Sequence[Timed]]


def is_decided(turns: Turns, *, cores: int) -> bool:
    """Whether rounds beyond those in `turns` are pointless: a planned look is clear and precise, or
    none can be.
    """
    if BASELINE in turns.failures or TUNED in turns.failures:
        return True
    if len(turns.windows[BASELINE]) not in LOOKS:
        return False
    rounds, _ = _fair_rounds(turns, cores)
    speedup = _speedup(turns, rounds, TUNED)
    return speedup is not None and is_clear(speedup)


def decide(
    turns: Turns,
    config: Config,
    *,
    cores: int,
    unobserved: Callable[[Seen], Sequence[str]],
    named: str = "the best settings",
    edits: Sequence[EditOutcome] = (),
    may_differ: bool = False,
) -> Verdict:
    """The verdict on `config`, the best settings found (none where none beat the program's own,
    `named` as people are told of them), from the turns of the program as it is, tuned, and, where
    it was emitted, delivered. `unobserved` says in sentences which settings a run of that did not
    have, `edits` why nothing was emitted; another training `may_differ` where it was allowed.
    """
    rounds, left_out = _fair_rounds(turns, cores)
    speedup = _speedup(turns, rounds, TUNED)
    trained = functools.partial(parity_in_turns, turns, config, may_differ=may_differ)
    same = trained(TUNED) if speedup else None
    delivered = _delivered(turns, rounds, unobserved, edits) if config else None
    if delivered and speedup and turns.losses.get(DELIVERED):
        delivered = _compared(delivered, trained(DELIVERED))
    claim = functools.partial(_claim, named, same=same, delivered=delivered)
    outcome, reason = _outcome(turns, config, speedup, claim, left_out)
    if speedup:
        reason += unlike_said(unlike_steps(turns, TUNED))
    validations = _validations(turns, speedup) if speedup else None
    verdict = Verdict(
        outcome=outcome,
        reason=reason,
        config=config if outcome == "faster" else {},
        speedup=speedup,
        baseline_samples_per_second=_rate(rounds, BASELINE),
        tuned_samples_per_second=_rate(rounds, TUNED),
        delivered=delivered,
        parity=same,
        turns={name: _all(rounds, name) for name in turns.windows},
        rounds=tuple(len(each[BASELINE]) for each in rounds),
        left_out=left_out,
        scatter=scatter_of(*windows_of_both(turns, TUNED)),
        suspect="" if may_differ else (known_otherwise(turns, config) or ("",))[0],
        too_short=speedup is None and not left_out and bool(turns.ended),
    )
    return held_to(verdict, validations)


def _validations(turns: Turns, speedup: Ratio) -> Validations | None:
    """What a gain in steps comes to with the validations that came in the turns."""
    found, own = validations_in(*windows_of_both(turns, TUNED), speedup), turns.seen.get(BASELINE)
    return found.of(own) if found and own else found


def _fair_rounds(turns: Turns, cores: int) -> tuple[list[Round], int]:
    """The rounds without the turns that were spoilt, and how many turns those were."""
    rounds: list[Round] = []
    left_out = 0
    for number in range(len(turns.windows.get(BASELINE, ()))):
        fair, spoilt = turns.fair(number, cores=cores)
        left_out += spoilt
        if fair.get(BASELINE):
            rounds.append(fair)
    return rounds, left_out


def _all(rounds: Sequence[Round], name: str) -> tuple[Timed, ...]:
    return tuple(turn for each in rounds for turn in each.get(name, ()))


def _rate(rounds: Sequence[Round], name: str) -> float | None:
    return rate(_all(rounds, name)) or None


def _speedup(turns: Turns, rounds: Sequence[Round], name: str) -> Ratio | None:
    """How much faster `name` is than the baseline; None with too few turns to say."""
    pairs = [list(zip(each[BASELINE], each[name], strict=True)) for each in rounds if name in each]
    if sum(map(len, pairs)) < FEWEST_TURNS:
        return None
    confidence = confidence_per_look(len(LOOKS))
    scatter = scatter_of(*windows_of_both(turns, name))
    found = ratio_in_turns(pairs, confidence=confidence, scatter=scatter)
    calm = found.low * turns.calm_share if _takes_less(turns, name) else found.low
    found = widened(found, unknown_of(*windows_of_both(turns, name)))
    found = widened(found, abs(math.log(unlike_steps(turns, name))))
    return replace(found, low=min(found.low, calm))


def _takes_less(turns: Turns, name: str) -> bool:
    """Whether `name` takes less than half the memory anew that the program as it is takes."""
    own, its = map(page_faults_per_second, windows_of_both(turns, name))
    return own is not None and its is not None and 2 * its < own


def _delivered(
    turns: Turns,
    rounds: Sequence[Round],
    unobserved: Callable[[Seen], Sequence[str]],
    edits: Sequence[EditOutcome],
) -> Delivered:
    missing: Sequence[str] = ()
    if DELIVERED in turns.failures:
        reason = f"The patched program failed: {turns.failures[DELIVERED].reason}"
    elif DELIVERED not in turns.windows:
        refused = [edit.reason for edit in edits if edit.status == "refused"]
        reason = refused[0] if refused else "There is no patch."
    elif DELIVERED not in turns.seen:
        reason = "whether it has every setting was not seen"
    else:
        missing = unobserved(turns.seen[DELIVERED])
        left_out = [edit for edit in edits if edit.status == "refused" and missing]
        reason = missing[0] if missing else ""
        if left_out:
            reason = f"{left_out[0].knob} is not in it: {left_out[0].reason}"
    observed, speedup = not reason, _speedup(turns, rounds, DELIVERED)
    if observed and speedup is None:
        reason = "Too few turns of the patched program could be timed undisturbed."
    return Delivered(
        samples_per_second=_rate(rounds, DELIVERED),
        speedup=speedup,
        settings_observed=observed,
        reason=reason,
    )


def _compared(delivered: Delivered, own: Parity) -> Delivered:
    if own.same_training is not False:
        return replace(delivered, parity=own)
    reason = f"The patched program did not train the same: {own.reason}"
    return replace(delivered, parity=own, reason=reason)


def _outcome(
    turns: Turns,
    config: Config,
    speedup: Ratio | None,
    claim: Callable[[Ratio], tuple[str, str]],
    left_out: int,
) -> tuple[str, str]:
    if not config:
        return "no_gain", "No setting came out faster than the program as it is."
    if BASELINE in turns.failures:
        why = turns.failures[BASELINE].reason
        return "failed", f"The program as it is could not be timed again: {why}"
    if TUNED in turns.failures:
        why = turns.failures[TUNED].reason
        return "no_gain", f"The best settings failed when they were run again: {why}"
    if speedup is None or left_out > MOST_LEFT_OUT * turns.turns:
        return "failed", _why_too_few(turns, left_out)
    return claim(speedup)


def _why_too_few(turns: Turns, left_out: int) -> str:
    if not left_out and not turns.ended:
        return "The time was over before enough turns could be taken: allow more."
    if not left_out:
        return (
            "The program ended before enough turns could be taken: let it train longer, "
            "with more epochs or more data, or allow more time."
        )
    spoilt = f"{left_out} turn" if left_out == 1 else f"{left_out} turns"
    if left_out <= MOST_LEFT_OUT * turns.turns:
        return (
            f"Other programs, or the machine's host, spoilt {spoilt}, and the time was over before "
            "enough others could be taken: allow more."
        )
    if 2 * len(turns.disturbed) > left_out:
        count = len(turns.disturbed)
        return (
            "The GPU was shared with other programs or kept its clocks down in "
            f"{count} turn{'s' * (count != 1)}: measure again when it is free and cool."
        )
    return f"The machine was too busy: other programs, or its host, spoilt {spoilt}."


def _claim(
    named: str, speedup: Ratio, same: Parity | None, delivered: Delivered | None
) -> tuple[str, str]:
    found = f"{speedup.estimate:.2f}× (interval {end(speedup.low)} to {end(speedup.high)})"
    if speedup.high < 1:
        return "no_gain", f"Timed in turns, {named} came out slower: {found}."
    if speedup.low <= 1:
        meaning = "too rough to tell" if speedup.spans(ROUGH) else "no difference found"
        if speedup.estimate > WORTH_MORE_TIME:
            meaning = "it may be chance"
        return "no_gain", f"Timed in turns, {named} came out {found}: {meaning}."
    if speedup.estimate < MINIMUM_GAIN:
        return "no_gain", f"The best settings came out {found}: too little to change a program for."
    if same is not None and same.same_training is False:
        why = f"but did not train the same: {same.reason}"
        return "no_gain", f"The best settings came out {found}, {why}"
    if delivered and delivered.settings_observed and delivered.speedup:
        handed = delivered.speedup.estimate
        if handed < MINIMUM_GAIN:
            why = f"but the patched program only {handed:.2f}×."
            return "no_gain", f"The settings came out {found}, {why}"
    return "faster", f"Timed in turns with the program as it is: {found}."
