"""Who takes turns in the last stage, and whether one of them trained the same as the first."""

import math
from dataclasses import replace

from autotune.knobs import by_name
from autotune.knobs.knob import Config, Semantics
from autotune.measurement.turns import Turns
from autotune.verdict.parity import Parity, parity
from autotune.workload.seen import Seen

# The contestants, as turns and results name them.
BASELINE, TUNED, DELIVERED = "baseline", "tuned", "delivered"
# Where samples come in another order, losses that part by up to so many bands say nothing; chosen,
# not measured.
ORDER_BANDS = 2.0
_OTHER_ORDER = (
    "But the samples come in another order, each worker reading its part of the stream: losses of "
    "single steps cannot be compared."
)
_ALLOWED = "Another training was allowed."


def parity_in_turns(turns: Turns, config: Config, name: str, *, may_differ: bool = False) -> Parity:
    """Whether the contestant `name` trained as the program as it is did, with settings `config`;
    one that trains otherwise, and may, is not called another training.
    """
    seen = turns.seen.get(BASELINE)
    baseline, own = (turns.losses.get(each, ()) for each in (BASELINE, name))
    skipped = turns.skipped.get(name, 0)
    late = max(0, skipped - turns.skipped.get(BASELINE, 0))
    found = parity(baseline, own, promised(turns, config), controls=turns.controls, late=late)
    if found.parted_by <= ORDER_BANDS and _is_in_another_order(seen, turns.seen.get(name)):
        reason = f"{found.reason} {_OTHER_ORDER}"
        found = replace(found, same_training=None, reason=reason)
    if may_differ and found.same_training is False and all(map(math.isfinite, own)):
        found = replace(found, same_training=None, reason=f"{found.reason} {_ALLOWED}")
    return replace(found, skipped_steps=skipped)


def promised(turns: Turns, config: Config) -> Semantics:
    """What `config` may change about the training: the furthest-reaching of its settings. Where two
    runs of the program differ by themselves, the same numbers cannot be promised.
    """
    own = (by_name(name).semantics for name in config)
    semantics = max(own, key=list(Semantics).index, default=Semantics.IDENTICAL)
    seen = turns.seen.get(BASELINE)
    if semantics is Semantics.IDENTICAL and seen and not _repeats_itself(seen):
        return Semantics.EQUIVALENT
    return semantics


def _is_in_another_order(before: Seen | None, after: Seen | None) -> bool:
    """Whether other workers than before draw from a stream: of several, each reads, and shuffles,
    its own part of it.
    """
    streams = [each.loader for each in (before, after) if each and each.loader]
    workers = {loader.num_workers for loader in streams if loader.iterable}
    return len(workers) == 2 and max(workers) > 1


def _repeats_itself(seen: Seen) -> bool:
    """Whether two runs of the program give the same numbers. On a GPU cuDNN may choose another
    algorithm in each process, and atomic additions come in any order.
    """
    return seen.device == "cpu" or seen.deterministic
