"""Who takes turns in the last stage, and whether one of them trained the same as the first."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from autotune.knobs import by_name
from autotune.knobs.batch_size import growth
from autotune.knobs.knob import Config, Semantics
from autotune.measurement.interleaved.turns import LOSSES_WANTED, Turns
from autotune.measurement.readings.memory import left_out
from autotune.verdict.chance import FEWEST_STEPS
from autotune.verdict.parity import Parity, parity
from autotune.workload.seen import Seen
from autotune.workload.window import Window

# The contestants, as turns and results name them.
BASELINE, TUNED, DELIVERED = "baseline", "tuned", "delivered"
# Where samples come in another order, losses that part by up to so many bands say nothing; chosen,
# not measured.
ORDER_BANDS = 2.0
_OTHER_ORDER = (
    "But the samples come in another order, each worker reading its part of the stream: losses of "
    "single steps cannot be compared."
)
_OTHER_RATE = (
    "in the compared steps the learning rate comes to be another, {own:.4g} where the program as "
    "it is has {first:.4g}: it goes by the losses (ReduceLROnPlateau), or by something that a "
    "faster program has otherwise, as the clock is."
)
_BESIDE = (
    "a thread of the program's own ({thread}) works beside the training, at a pace of its own: "
    "a faster training may find less of its work done in each step."
)
_ALLOWED = "Another training was allowed."
# A scale that begins at 2**16 has come to 2**-8 after so many halvings: gradients that overflow
# even then are infinite themselves. Once a scale is found, a single step may overflow by chance: it
# grows after 2,000 steps without any. Both chosen, not measured.
MOST_SKIPPED, MOST_SKIPPED_LATE = 24, 1
SETTLED_AFTER = 2 / 3  # of the steps that are compared
# Steps, see `_passes_over`; and the share that others than the usual may have of a program whose
# steps are alike: an agent's episodes are not. Chosen.
FEW, UNUSUAL = 3, 0.1
SAME_RATE = 1e-9  # relative; a rate that follows from the step's number is the same number
_BY_CHANCE = 1.05  # times as many samples a step as the ends of turns may make of as many


def parity_in_turns(turns: Turns, config: Config, name: str, *, may_differ: bool = False) -> Parity:
    """Whether the contestant `name` trained as the program as it is did, with settings `config`;
    one that trains otherwise, and may, is not called another training.
    """
    seen = turns.seen.get(BASELINE)
    baseline, own = (turns.losses.get(each, ()) for each in (BASELINE, name))
    skipped = _skipped(turns, name, 0.0)
    late = max(0, skipped - _skipped(turns, BASELINE, 0.0))
    semantics, pairs = promised(turns, config), turns.pairs.get(name, ())
    found = parity(baseline, own, semantics, controls=turns.controls, pairs=pairs, late=late)
    if found.parted_by <= ORDER_BANDS and _is_in_another_order(seen, turns.seen.get(name)):
        reason = f"{found.reason} {_OTHER_ORDER}"
        found = replace(found, same_training=None, reason=reason)
    if found.same_training and (parted := _other_rate(turns, name)):
        found = replace(found, same_training=None, reason=_but(found.reason, parted))
    if other := known_otherwise(turns, config):
        found = replace(found, same_training=False, reason=f"{other[1]}.")
    if found.same_training and turns.beside:
        reason = _but(found.reason, _BESIDE.format(thread=turns.beside))
        found = replace(found, same_training=None, reason=reason)
    if may_differ and found.same_training is False and all(map(math.isfinite, own)):
        found = replace(found, same_training=None, reason=f"{found.reason} {_ALLOWED}")
    if found.is_another and seen and found.same_training is None:
        said = (by_name(each).otherwise(value, seen) for each, value in config.items())
        found = replace(found, reason=" ".join(filter(None, (found.reason, *said))))
    why = _without_batches(turns, name, config) or _passes_over(turns, name, config)
    steps = min(len(baseline), len(own), LOSSES_WANTED)
    if steps >= FEWEST_STEPS:
        why = why or _unsettled(turns, name, steps)
    if why:
        found = replace(
            found, same_training=False, reason=why, max_relative_loss_difference=None, band=None
        )
    return replace(found, skipped_steps=skipped)


def _but(reason: str, other: str) -> str:
    """`reason`, where there is one, and what speaks against it."""
    return f"{reason} But {other}" if reason else f"{other[:1].upper()}{other[1:]}"


def known_otherwise(turns: Turns, config: Config) -> tuple[str, str] | None:
    """The setting of `config` that is another training, by what any contestant was seen to do, and
    why; None where none is known to be.
    """
    found = (
        (name, why)
        for seen in turns.seen.values()
        for name, value in config.items()
        if (why := by_name(name).is_another(value, seen))
    )
    return next(found, None)


def _other_rate(turns: Turns, name: str) -> str:
    """That `name` comes to another learning rate than the program as it is, in a sentence; ""
    where both have the same in each step. One that follows the losses may differ as these do.
    """
    both = zip(*(turns.rates.get(each, ()) for each in (BASELINE, name)), strict=False)
    for first, own in both:
        if math.isfinite(first - own) and not math.isclose(first, own, rel_tol=SAME_RATE):
            return _OTHER_RATE.format(first=first, own=own)
    return ""


def _without_batches(turns: Turns, name: str, config: Config) -> str:
    """Why `name` trained on less than it was given, where the program as it is did not; or ""."""
    seen, own = turns.seen.get(BASELINE), turns.windows.get(BASELINE, [])
    if seen is None or left_out(own, own, seen):
        return ""
    larger = growth(config, seen)
    if not left_out(turns.windows.get(name, []), own, seen, larger=larger):
        return ""
    return "It ran out of the device's memory, and went on without the batches that did not fit."


def _passes_over(turns: Turns, name: str, config: Config) -> str:
    """Why `name` made more forward passes for some of its first steps, where the program as it is
    made none for as many, or clearly fewer; or "". What none of n steps did, less than 3 / n do
    (95 %).
    """
    if config.get("micro_batches", 1) != 1 or any(map(turns.skipped.get, (BASELINE, name))):
        return ""  # those of parts, and of steps that a GradScaler left out
    both = [turns.forwards.get(each, ()) for each in (BASELINE, name)]
    limit = min(sum(steps for window in each for _, steps in window) for each in both)
    own, its = (_first_forwards(each, limit) for each in both)
    usual = max(own, key=own.__getitem__, default=0)
    if not usual or max(its, key=its.__getitem__, default=0) != usual:
        return ""
    before, now = (
        sum(steps for passes, steps in each.items() if passes > usual) for each in (own, its)
    )
    most = (before + FEW + 2 * math.sqrt(before)) / own.total() * its.total()
    if now <= most or before > UNUSUAL * own.total():
        return ""
    return (
        f"Of its first {its.total()} steps {now} had more forward passes than others, and of "
        f"{own.total()} of the program as it is {before or 'none'} had: batches are passed over "
        "now and then, as where a loss that is no number is left out."
    )


def _first_forwards(windows: Sequence[tuple[tuple[int, int], ...]], steps: int) -> Counter[int]:
    """How many of the first `steps`, or somewhat fewer, had so many forward passes."""
    found = Counter[int]()
    for window in windows:
        if found.total() + sum(number for _, number in window) > steps:
            break
        found.update(dict(window))
    return found


def _skipped(turns: Turns, name: str, since: float) -> int:
    """Steps that a GradScaler left out in the windows that begin with loss `since` or later."""
    return sum(steps for before, steps in turns.skipped.get(name, ()) if before >= since)


def _unsettled(turns: Turns, name: str, steps: int) -> str:
    """Why the GradScaler of `name` finds no scale at which gradients are numbers, where that of the
    program as it is has one or needs none; "" where it does.
    """
    since = SETTLED_AFTER * steps
    whole, late = (
        _skipped(turns, name, each) - _skipped(turns, BASELINE, each) for each in (0.0, since)
    )
    if whole <= MOST_SKIPPED and late <= MOST_SKIPPED_LATE:
        return ""
    at_last = _skipped(turns, name, since)
    lasts = f" ({at_last} in the last third of {steps} steps)" if late > MOST_SKIPPED_LATE else ""
    return (
        f"Its GradScaler left out {_skipped(turns, name, 0.0)} steps{lasts}, as their gradients "
        "were infinite or not a number at its scale: such steps move no weights."
    )


def promised(turns: Turns, config: Config) -> Semantics:
    """What `config` may change about the training: the furthest-reaching of its settings. Where two
    runs of the program differ by themselves, the same numbers cannot be promised.
    """
    own = (by_name(name).semantics for name in config)
    semantics = max(own, key=list(Semantics).index, default=Semantics.IDENTICAL)
    seen = turns.seen.get(BASELINE)
    # On a GPU cuDNN may choose another algorithm in each process, and atomic additions come in any
    # order.
    repeats = seen is None or seen.device == "cpu" or seen.deterministic
    return Semantics.EQUIVALENT if semantics is Semantics.IDENTICAL and not repeats else semantics


def _is_in_another_order(before: Seen | None, after: Seen | None) -> bool:
    """Whether other workers than before draw from a stream: of several, each reads, and shuffles,
    its own part of it.
    """
    streams = [each.loader for each in (before, after) if each and each.loader]
    workers = {loader.num_workers for loader in streams if loader.iterable}
    return len(workers) == 2 and max(workers) > 1


def unlike_steps(turns: Turns, name: str) -> float:
    """How many times as many samples a step of `name` has as one of the program as it is, in the
    turns of both; 1.0 where that may be chance, or a loader makes batches of one size: a step then
    has more of them, as where gradients are added up over more and more.

    Speeds are told by samples: they do not say which is faster where steps have others.
    """
    each = [*map(_samples_per_step, windows_of_both(turns, name))]
    loaders = [seen.loader for which in (BASELINE, name) if (seen := turns.seen.get(which))]
    sizes = {loader.batch_size for loader in loaders if loader is not None}
    if not all(each) or sizes - {None}:
        return 1.0
    times = each[1] / each[0]
    return times if abs(math.log(times)) > math.log(_BY_CHANCE) else 1.0


def unlike_said(times: float) -> str:
    """What is to be known of a ratio of their speeds; "" where they are alike."""
    if times == 1.0:
        return ""
    return (
        f" A step had {times:.2g} times as many samples as one of the program as it is, though the "
        "settings change none: the interval is as much wider."
    )


def windows_of_both(turns: Turns, name: str) -> tuple[list[Window], list[Window]]:
    """All windows of the program as it is, and of `name`."""
    own, its = (turns.windows.get(each, ()) for each in (BASELINE, name))
    return [each for taken in own for each in taken], [each for taken in its for each in taken]


def _samples_per_step(windows: Sequence[Window]) -> float:
    steps = sum(window.steps for window in windows)
    return sum(window.samples for window in windows) / steps if steps else 0.0
