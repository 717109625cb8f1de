"""Loader workers held to their promise in the training itself: it must be given the same batches,
and have the same losses on them.

What workers deliver may be right, and the training another all the same: its loop looks at what
choosing or reading samples leaves behind in this process, which goes ahead there, or stays as it
was; or it changes later, in a way that copies do not see, what samples are made from. So the
program is run as it is and with workers, all its loaders reading alike whoever reads: all that is
left to differ is what has other sources.
"""

import functools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from autotune.knobs.knob import Config
from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.workload.window import GIVEN

# Of which every step's loss is read.
MOST_STEPS = 200
# The first losses that differ do so by more than this share of them, some hundred times the last
# place of a float32: workers give batches at other places in memory, which may round differently.
MOST_ROUNDED = 1e-5

_AHEAD = (
    "what samples are made from, or chosen by, may depend on the training, which workers run ahead "
    "of, on copies, or on something that they share"
)
_CHOSEN = (
    "what they are chosen by may depend on the training, or go on from how many were chosen, and "
    "for workers they are chosen ahead"
)
_LEFT = (
    "the loop may use something that choosing or reading samples leaves behind in its own process, "
    "and workers run ahead of it, on copies; or the step is rounded otherwise there"
)
_LIVES_ON = "workers that live on go on reading from the copies that they began with"
# The loss of a step whose backward pass is none of autograd's (torch.func): the batches remain.
UNSEEN = math.nan
_SAME_CHANCE = "though random numbers are drawn alike"
SOONER = ", in a run with its later stages brought forward,"

# A step is waited for twenty times as long (`ProcessRun.watch`): workers that hang in it do so in
# their trial as well, which says so.
STEP_SECONDS = 1.0
# Where evaluations come sooner, one is waited for twice as long as all steps may take.
SOONER_STEP_SHARE = 0.1

Start = Callable[..., ProcessRun]  # with settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The first steps of a training: the loss of each, and how many batches had been given by then,
    and digests of each of those, and of the samples that were `chosen` for it. `epochs` were begun.
    """

    losses: list[float] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list)
    given: tuple[int, ...] = ()
    chosen: tuple[int, ...] = ()
    epochs: int = 0


def why_not_trained(
    start: Start, workers: int, *, steady: bool, seconds: float, sooner: Start | None = None
) -> str:
    """Why the training with so many `workers` is another; "" where it is not, or that cannot be
    told, since the program is another in each run. Its loaders read alike; it is `steady` where
    that leaves what samples are made from as it was: what has random numbers of its own gives
    workers others. Each of two or three runs takes so many `seconds`, as `sooner` starts it where
    it takes a step so.
    """
    try:
        train, own, so = _begun(start, sooner, {}, seconds)
        other = train({"num_workers": workers}, seconds, len(own.losses))
        step, batch = parts_at(own, other), given_another_at(own, other) if steady else None
        choice = chosen_another_at(own, other)
        if not (step or batch or choice):
            return ""
        again = train({}, 2 * seconds, len(own.losses))
    except (NotPossible, RunEnded):
        return ""
    # What comes later may differ by itself, as sums on a GPU do.
    if step and again.losses[:step] == own.losses[:step]:
        was, would = own.losses[step - 1], other.losses[step - 1]
        return (
            f"on the same batches the loss of step {step}{so} is {would:.6g} instead of {was:.6g}: "
            f"{_LEFT}"
        )
    if batch and again.given[:batch] == own.given[:batch]:
        return f"batch {batch} of the training{so} comes out different, {_SAME_CHANCE}: {_AHEAD}"
    if choice and chosen_another_at(own, again) is None:
        return f"batch {choice} of the training{so} has other samples, {_SAME_CHANCE}: {_CHOSEN}"
    return ""


def why_not_living_on(
    start: Start, workers: int, *, seconds: float, sooner: Start | None = None
) -> str:
    """Why the training with `workers` that live on from epoch to epoch is another; "" where it is
    not, or no second epoch begins in so many `seconds`. See `why_not_trained`.
    """
    config: Config = {"num_workers": workers, "persistent_workers": False}
    try:
        train, own, so = _begun(start, sooner, config, seconds)
        if own.epochs < 2:
            return ""
        other = train({**config, "persistent_workers": True}, seconds, len(own.losses))
        batch = given_another_at(own, other)
        if batch is None:
            return ""
        again = train(config, 2 * seconds, len(own.losses))
    except (NotPossible, RunEnded):
        return ""
    if again.given[:batch] != own.given[:batch]:
        return ""
    return f"batch {batch} of the training{so} comes out different, {_SAME_CHANCE}: {_LIVES_ON}"


def _begun(
    start: Start, sooner: Start | None, config: Config, seconds: float
) -> tuple[Callable[..., Trained], Trained, str]:
    """What trains as `sooner` starts the program, that training with `config`, and what to say of
    it; as `start` does if the program fails at once.
    """
    if sooner is not None:
        patient = functools.partial(trained, sooner, step_seconds=SOONER_STEP_SHARE * seconds)
        with suppress(RunEnded):
            if (found := patient(config, seconds)).losses:
                return patient, found, SOONER
    return functools.partial(trained, start), trained(start, config, seconds), ""


def trained(
    start: Start,
    config: Config,
    seconds: float,
    most: int = MOST_STEPS,
    step_seconds: float = 0.0,
) -> Trained:
    """As many steps of the program with `config` as `seconds` have time for, `most` at the most,
    each of which is given up after twenty times `step_seconds`, or `STEP_SECONDS`.

    Raises:
        RunEnded: the program crashed, hung or was killed before its first step.
        NotPossible: what it is given cannot be noted.
    """
    losses, drawn, epochs = list[float](), list[int](), 0
    given: tuple[tuple[int, int], ...] = ()
    run = start(config)
    try:
        run.await_first_step()
        run.limit(step_seconds or STEP_SECONDS)
        ends = time.monotonic() + seconds
        with suppress(RunEnded):
            while len(losses) < most and (not losses or time.monotonic() < ends):
                watched = run.watch(GIVEN, steps=1)
                assert isinstance(watched.found, tuple), watched
                given = watched.found
                losses += watched.window.losses or (UNSEEN,)
                drawn += [len(given)] * (len(losses) - len(drawn))
            loader = run.seen().loader
            epochs = loader.epochs if loader is not None else 0
    finally:
        run.kill()
    return Trained(
        losses=losses,
        drawn=drawn,
        given=tuple(batch for batch, _ in given),
        chosen=tuple(samples for _, samples in given),
        epochs=epochs,
    )


def parts_at(own: Trained, other: Trained) -> int | None:
    """The first step with another loss, though both were given the same until then, and by more
    than rounding; None where there is none, or they were given something else before.
    """
    for step, (first, second) in enumerate(zip(own.losses, other.losses, strict=False), 1):
        count = own.drawn[step - 1]
        if count != other.drawn[step - 1] or own.given[:count] != other.given[:count]:
            return None
        if not (math.isfinite(first) and math.isfinite(second)):
            return None
        if first != second:
            rounded = MOST_ROUNDED * max(abs(first), abs(second))
            return step if abs(first - second) > rounded else None
    return None


def given_another_at(own: Trained, other: Trained) -> int | None:
    """The first batch that was another, where both have drawn as often for each of their steps;
    None where there is none.
    """
    return _another_at(own, other, own.given, other.given)


def chosen_another_at(own: Trained, other: Trained) -> int | None:
    """The first batch that other samples were chosen for, as `given_another_at` has it."""
    return _another_at(own, other, own.chosen, other.chosen)


def _another_at(
    own: Trained, other: Trained, mine: Sequence[int], its: Sequence[int]
) -> int | None:
    steps = min(len(own.drawn), len(other.drawn))
    if not steps or own.drawn[:steps] != other.drawn[:steps]:
        return None
    pairs = zip(mine[: own.drawn[steps - 1]], its, strict=False)
    return next((number for number, (one, another) in enumerate(pairs, 1) if one != another), None)
