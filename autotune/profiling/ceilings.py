"""What each class of changes could gain at the most."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from autotune.profiling.course import MOST_SHAPES
from autotune.profiling.profile import Ceiling
from autotune.workload.seen import Seen
from autotune.workload.window import DRAIN, REPLAY_DEVICE, REPLAY_HOST, Window

_CEILINGS = (("compute", REPLAY_DEVICE), ("host", REPLAY_HOST), ("data", DRAIN))
# The phases that cost nothing in each of those that replay a batch.
_FREED = {"compute": ("data", "copy"), "host": ("data",)}
# What the rest of a step may seem to gain by not making batches itself: more is said to be so.
UNDISTURBED = 1.1
# With a part of its work taken away a program is not slower than this, as a share of its speed:
# the machine itself was slower then.
LEAST_CEILING = 0.9
_ONE_OF_SEVERAL = "a step draws from several loaders, of which one was drained alone"
_MANY_SHAPES = "the model is given many shapes: one batch, replayed, may be unlike the others"
_BY_SHARE = "What loading in no time would gain is told by the share of the waits."
_SLOWED = (
    "it came out slower than the program as it is: most likely the machine was slower just then"
)


def measured(
    windows: Mapping[str, Sequence[Window]], reasons: Mapping[str, str], rate: float
) -> tuple[Ceiling, ...]:
    """The ceilings as they were timed, in windows by mode, of a program that runs at `rate`."""
    return tuple(
        _ceiling(name, windows.get(mode, ()), rate, reasons.get(mode, ""))
        for name, mode in _CEILINGS
    )


def _ceiling(name: str, windows: Sequence[Window], rate: float, reason: str) -> Ceiling:
    ceiling = rate_of(windows)
    if not ceiling or not rate:
        return Ceiling(
            name=name, samples_per_second=None, max_gain=None, reason=reason or "not measured"
        )
    if ceiling < LEAST_CEILING * rate:
        return Ceiling(name=name, samples_per_second=None, max_gain=None, reason=_SLOWED)
    return Ceiling(name=name, samples_per_second=ceiling, max_gain=ceiling / rate)


def to_give_back(
    ceilings: Sequence[Ceiling],
    phases: Mapping[str, float],
    as_is: Sequence[Window],
    seen: Seen,
    *,
    on_device: bool,
) -> tuple[Ceiling, ...]:
    """`ceilings` as far as they are the loader's to give back: the share of a step that waits for
    it, and on a CPU the processor time of its workers, each second of which makes threads that wait
    for one another late by no more. What lies beyond is other programs' doing, or that of caches
    in which one batch again and again lies.
    """
    loader = seen.loader
    if loader is not None and loader.beside:
        ceilings = _without(ceilings, ("data",), _ONE_OF_SEVERAL)
    if loader is not None and not loader.threaded and seen.shapes > MOST_SHAPES:
        ceilings = _without(ceilings, _FREED, _MANY_SHAPES)
    if loader is None or loader.threaded or (loader.num_workers and on_device):
        return tuple(ceilings)
    seconds = sum(window.seconds for window in as_is)
    beside = per_second(sum(window.worker_cpu_seconds for window in as_is), seconds)
    return tuple(_bounded(each, phases, beside, rate_of(as_is)) for each in ceilings)


def _without(ceilings: Sequence[Ceiling], names: Collection[str], why: str) -> tuple[Ceiling, ...]:
    """`ceilings` without those of these `names`: what was timed is not what a step waits for."""
    return tuple(_not_measured(each, why) if each.name in names else each for each in ceilings)


def _not_measured(ceiling: Ceiling, why: str) -> Ceiling:
    was_timed = ceiling.max_gain is not None or ceiling.reason == _SLOWED
    reason = why if was_timed else ceiling.reason  # of one that was not, it says why
    return replace(ceiling, samples_per_second=None, max_gain=None, reason=reason)


def _bounded(ceiling: Ceiling, phases: Mapping[str, float], beside: float, rate: float) -> Ceiling:
    if ceiling.name not in _FREED or ceiling.max_gain is None:
        return ceiling
    freed = beside + sum(phases.get(phase, 0.0) for phase in _FREED[ceiling.name])
    most = 1 / max(1 - freed, 0.001)
    if ceiling.max_gain <= most:
        return ceiling
    return replace(
        ceiling,
        samples_per_second=most * rate,
        max_gain=most,
        reason=_BY_SHARE,
    )


def per_second(amount: float, seconds: float) -> float:
    """0.0 where there are no seconds."""
    return amount / seconds if seconds else 0.0


def rate_of(windows: Sequence[Window]) -> float:
    """Samples a second over all of `windows`."""
    seconds = sum(window.seconds for window in windows)
    return per_second(sum(window.samples for window in windows), seconds)
