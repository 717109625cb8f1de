"""Which configurations need not be tried any more, by what was tried."""

import math
from collections.abc import Callable, Sequence

from autotune.diagnosis import Bottleneck
from autotune.knobs import KNOBS, blamed
from autotune.knobs.knob import Config, Value
from autotune.machine import CPU
from autotune.measurement.measurement import Failure, Measurement
from autotune.trials.trial import PASSING, Trial

# Knobs that can do no more than bring batches sooner, and knobs that save memory.
FEEDING = frozenset(
    knob.name
    for knob in KNOBS
    if knob.relieves and knob.relieves <= {Bottleneck.DATA, Bottleneck.COPY}
)
_SAVING = frozenset(knob.name for knob in KNOBS if Bottleneck.MEMORY in knob.relieves)

_WORKERS, _BATCH = "num_workers", "batch_size"

# Failures that say nothing of one change by itself.
_NOT_ONES_DOING = ("out_of_memory", *PASSING)

Key = frozenset[tuple[str, Value]]


def key_of(config: Config) -> Key:
    """`config` as it is told from others."""
    return frozenset(config.items())


def closed_by(
    trials: Sequence[Trial],
    fits: Callable[[Trial], bool],
    *,
    fed: bool,
    workers: float = math.inf,
) -> Callable[[Key], bool]:
    """Which candidates are out: what a failure is blamed on fails again, what needed too much
    memory needs it unless more is saved, and batches that come fast enough (`fed`, by one of the
    trials) need not come faster. `fits` says whether a trial was measured and fits into memory,
    and no more `workers` do.
    """
    failed = [
        key_of(blamed(trial.config, trial.outcome.reason))
        for trial in trials
        if isinstance(trial.outcome, Failure) and trial.outcome.kind not in _NOT_ONES_DOING
    ]
    large = [
        key_of(trial.config)
        for trial in trials
        if (
            trial.outcome.kind == "out_of_memory"
            if isinstance(trial.outcome, Failure)
            else not fits(trial)
        )
    ]
    suspects = _suspects(trials)

    def closed(key: Key) -> bool:
        if any(each <= key for each in failed):
            return True
        if any(len(each & key) > len(each) // 2 and each != key for each in suspects):
            return True
        if any(
            each <= (held := _held(key, each)) and _SAVING.isdisjoint(dict(held - each))
            for each in large
        ):
            return True
        if any(name == _WORKERS and int(value) > workers for name, value in key):
            return True
        return fed and all(name in FEEDING for name, _ in key)

    return closed


def _held(key: Key, large: Key) -> Key:
    """`key` with the batch size of what was too `large`, where its own is no smaller."""
    own, other = dict(key).get(_BATCH), dict(large).get(_BATCH)
    if own is None or other is None or int(own) < int(other):
        return key
    return key - {(_BATCH, own)} | {(_BATCH, other)}


def most_workers(trials: Sequence[Trial], limit_bytes: int | None) -> float:
    """The most loader workers that fit beside the training process, as far as trials have told what
    one takes; `math.inf` without a limit, or on a GPU, of whose memory they take none.
    """
    outcomes = (trial.outcome for trial in trials)
    measured = [each for each in outcomes if isinstance(each, Measurement)]
    needs = [need for each in measured if (need := _need_of_workers(each)) is not None]
    taken = [(beside / count, count, own) for own, beside, count in needs if count]
    if limit_bytes is None or not taken:
        return math.inf
    of_one = min(each for each, _, _ in taken)
    room = limit_bytes - min(own for own, _, _ in needs)
    fitting = [room / of_one if of_one > 0 else math.inf]
    # Where it was they that were too much, one less is the most.
    fitting += [n - 1 for each, n, own in taken if own <= limit_bytes < own + each * n]
    return min(fitting)


def _need_of_workers(measured: Measurement) -> tuple[int, int, int] | None:
    """What the training process took of a machine's memory, what its loader's workers took beside
    it, and how many these were.
    """
    own = max((window.peak_bytes or 0 for window in measured.windows), default=0)
    if measured.seen.device != CPU or measured.peak_bytes is None or not own:
        return None
    loader = measured.seen.loader
    return own, max(0, measured.peak_bytes - own), loader.num_workers if loader else 0


def _suspects(trials: Sequence[Trial]) -> list[Key]:
    """The changes that trials have in common which failed alike, and that nothing was measured
    with: half of them at a time are tried from then on, until one is left that has failed in two at
    least. It may fail together with others only, so it is tried by itself.
    """
    fine = {
        change
        for trial in trials
        if isinstance(trial.outcome, Measurement)
        for change in trial.config.items()
    }
    alike: dict[str, list[Key]] = {}
    for trial in trials:
        if isinstance(trial.outcome, Failure) and trial.outcome.kind not in _NOT_ONES_DOING:
            reason = trial.outcome.reason
            changes = key_of(blamed(trial.config, reason)) - fine
            alike.setdefault(reason, []).append(changes)
    shared: dict[Key, int] = {}
    for some in alike.values():
        changes = frozenset.intersection(*some)
        shared[changes] = max(shared.get(changes, 0), len(some))
    return [changes for changes, times in shared.items() if len(changes) > 1 or times > 1]
