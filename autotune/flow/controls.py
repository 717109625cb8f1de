"""Runs in which chance alone is another: how far it takes a training whose losses part."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autotune.flow.context import Context
from autotune.knobs.knob import Config
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.verdict.chance import NUDGE, Pair, explained_by_seeds, is_another
from autotune.verdict.courses import first_difference
from autotune.verdict.parity import Parity

# How long the controls may take for as many losses as part, from their first steps on: what the
# contestants needed for theirs within the budget is mostly far less. And how many there are where
# random numbers are others: these take a training now here, now there. Runs with another seed have
# as long in all, those that the settings are held against and those that the patch is.
CONTROL_SECONDS = 0.25, (20.0, 600.0)
STREAMS = 3
LIVING_ON = "persistent_workers"
READ_OTHERWISE = frozenset(("num_workers", LIVING_ON))

Start = Callable[..., ProcessRun]


class Left:
    """The time that controls have left: what they take to start is not counted."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def losses(self, start: Start, steps: int, other: dict[str, Any]) -> tuple[list[float], bool]:
        """As many losses of a run in which chance is `other`, or those that there is time for; and
        whether it failed.
        """
        losses: list[float] = []
        failed, run = False, start(**other)
        began = time.monotonic()
        try:
            run.await_first_step()
            began = time.monotonic()
            while len(losses) < steps and time.monotonic() < began + self.seconds:
                losses += run.window(0.0).losses
        except RunEnded as end:
            losses += end.window.losses if end.window else ()
            failed = end.failure.kind != "ended"
        finally:
            run.kill()
        self.seconds -= time.monotonic() - began
        return losses, failed


def controls(
    context: Context, start: Start, config: Config, own: Sequence[float], *, exact: bool
) -> list[list[float]]:
    """As many losses as its `own` of the program as `start` starts it, its weights moved by
    `NUDGE`, and its samples read with other random numbers where `config` has other workers read
    them, or the same ones go on; these are seeded once, so that the order of later epochs is
    another too. Several runs there, where the program has other losses in each, and where one
    fails.

    Where the same numbers are promised, `exact`ly, it is only run again: it may have others in each
    run.
    """
    left = Left(context.seconds(*CONTROL_SECONDS))
    most = f"for {left.seconds:.0f} s at most"
    context.listener.stage(f"looking how far chance alone takes the training, {most}")
    otherwise = bool(READ_OTHERWISE & config.keys())
    found: list[list[float]] = []
    while len(found) < STREAMS and left.seconds > 0:
        other: dict[str, Any] = {"nudge": 0.0 if exact else NUDGE}
        if otherwise:
            other |= {"stream": len(found) + 1, "reorder": LIVING_ON in config}
        losses, failed = left.losses(start, len(own), other)
        found.append(losses)
        if not (otherwise or failed) and first_difference(own, losses) is None:
            break
    return found


def pairs_of_seeds(
    context: Context, parted: Parity, own: Start, tuned: Start, left: Left
) -> Iterator[Pair]:
    """The losses of the program as it is and with the settings, both with another seed, until it is
    known whether these explain that theirs have `parted`, or that another seed does nothing. Where
    it says nothing of the program as it is, the settings are not run.
    """
    first, second = parted.baseline_losses, parted.tuned_losses
    pairs = list[Pair]()
    while len(pairs) < STREAMS and left.seconds > 0:
        if explained_by_seeds(first, second, pairs) is not None:
            return
        context.listener.stage(f"looking how far another seed takes the training: {len(pairs) + 1}")
        other = {"reseed": len(pairs) + 1}
        alone, _ = left.losses(own, parted.steps, other)
        tells = is_another(first, alone)
        pairs.append((alone, left.losses(tuned, parted.steps, other)[0] if tells else []))
        yield pairs[-1]
        if alone and not tells and all(map(math.isfinite, alone)):
            return
