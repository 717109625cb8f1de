"""Live processes taking turns, so that a difference between them is theirs and not the hour's."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.measurement.benchmark import WARM_LIMIT_SECONDS
from autotune.measurement.doubts import starved
from autotune.measurement.interleaved.apart import Apart
from autotune.measurement.interleaved.rounds import NotTogether, Round, Start
from autotune.measurement.measurement import Failure
from autotune.measurement.statistics import Timed, rate, timed
from autotune.workload.seen import Seen
from autotune.workload.window import Window

# Two warmed processes taking turns of 0.4 s: 7 % rms error, against 12 % one after the other.
TURN_SECONDS = 0.4
# It holds so many of the program's own steps at least, so that it is more than one batch.
STEPS_PER_TURN = 2.5
# Losses of few steps say little of a training: what the turns did not give is run on, not timed.
LOSSES_NEEDED, LOSSES_WANTED = 40, 200

Pair = tuple[Sequence[float], Sequence[float]]  # losses of two runs


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSeconds:
    """How long each contestant may run on for losses to compare: for as many as it takes to say
    anything, and for more of them.
    """

    needed: float = 10.0
    wanted: float = 4.0

    def want_more(self, count: int, seconds: float) -> bool:
        """Whether a contestant with `count` losses, that ran on for `seconds`, is to go on."""
        needed = count < LOSSES_NEEDED and seconds < self.needed
        return needed or (count < LOSSES_WANTED and seconds < self.wanted)


@dataclass(slots=True, kw_only=True)
class Turns:
    """What taking turns gave: for each contestant its windows by round, a fresh set of processes.

    Turn `i` of a round is the same moment for every contestant. `losses` are those of the first
    round, from the program's first step on; `skipped` says for each window of them how many losses
    came before it, and how many of its steps a GradScaler left out; `rates` are the learning rates
    that belong to the losses, `forwards` how many steps had so many forward passes, window by
    window. `controls` are those of the program as it is where chance alone is another, `pairs`
    those of the program as it is and of each contestant where both have another seed. `failures`
    names who could not be measured, and why. `ended` are those that came to their own end before
    their turns were over. `disturbed` are the turns, as (round, turn), in which the GPU was shared
    or kept its clocks down. `calm_share` is what is left of a step of the program as it is while it
    takes little memory anew. `beside` is a thread of the program's own that works at a pace of its
    own.
    """

    windows: dict[str, list[list[Window]]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    forwards: dict[str, list[tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    controls: list[list[float]] = field(default_factory=list)
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    disturbed: set[tuple[int, int]] = field(default_factory=set)
    calm_share: float = 1.0
    beside: str = ""

    @property
    def turns(self) -> int:
        """Turns taken so far, over all rounds."""
        return sum(len(taken) for taken in next(iter(self.windows.values()), []))

    def keep_losses(self, name: str, window: Window) -> None:
        """Add the losses of a window of the contestant `name`, and what belongs to them."""
        if (before := len(self.losses[name])) < LOSSES_WANTED and window.skipped_steps:
            self.skipped.setdefault(name, []).append((before, window.skipped_steps))
        self.losses[name] += window.losses
        self.rates.setdefault(name, []).extend(window.rates)
        self.forwards.setdefault(name, []).append(window.forwards)

    def forget_round(self, failures: dict[str, Failure]) -> None:
        """The last round did not come to its end; `failures` are those before it."""
        self.failures = failures
        for name, rounds in self.windows.items():
            rounds.pop()
            if not rounds:
                self.losses[name].clear()
                self.rates.pop(name, None)
                self.skipped.pop(name, None)
                self.forwards.pop(name, None)
        left = len(next(iter(self.windows.values())))
        self.disturbed = {each for each in self.disturbed if each[0] < left}

    def fair(self, number: int, *, cores: int) -> tuple[dict[str, list[Timed]], int]:
        """The turns of a round that count, by contestant, and how many others there are.

        A turn in which anyone was starved or the device disturbed counts for no one, so that
        leaving it out favours nobody. One that trained on nothing in all of them has none.
        """
        taken = {name: rounds[number] for name, rounds in self.windows.items() if rounds[number]}
        count = min(map(len, taken.values()), default=0)
        unlike = len({each.threads for windows in taken.values() for each in windows}) > 1
        kept = [
            turn
            for turn in range(count)
            if (number, turn) not in self.disturbed
            and not any(
                starved(windows[turn], cores=cores, beside_fewer=unlike)
                for windows in taken.values()
            )
        ]
        fair = {name: [timed(windows[turn]) for turn in kept] for name, windows in taken.items()}
        trained = {name: each for name, each in fair.items() if rate(each) > 0 or not each}
        return trained, count - len(kept)


def turn_seconds_of(step_seconds: float) -> float:
    """How long a turn of a program with such steps is at the least."""
    return max(TURN_SECONDS, STEPS_PER_TURN * step_seconds)


def take_turns(
    contestants: Mapping[str, Start],
    *,
    rounds: int,
    deadline: float,
    turn_seconds: float = TURN_SECONDS,
    warm_seconds: float = WARM_LIMIT_SECONDS,
    losses: LossSeconds | None = None,
    together: bool = False,
    after_round: Callable[[Turns], bool],
) -> Turns:
    """Run the contestants in turns, in fresh processes each round.

    A round has as many turns as its processes scatter, within limits and the time that there is. A
    program that ends before its turns are over is started again in the next round; one that ends
    before its first turn is timed from its start to its end.

    The first of the `contestants` is the baseline. There are several rounds since two identical
    processes differ lastingly by a few percent; none is begun after the `deadline`, of
    `time.monotonic()`, or once `after_round`, which is shown what there is, says so. `turn_seconds`
    is the least length of a turn. In the first round they run on for `losses` to compare; None
    keeps none. Where they are to live `together` and cannot, no turns are taken.
    """
    turns = Turns(
        windows={name: [] for name in contestants}, losses={name: [] for name in contestants}
    )
    shortest = 0.0  # seconds that another round takes, with as few turns as may be
    for number in range(rounds):
        if number and time.monotonic() + shortest > deadline:
            break
        given: dict[str, Any] = {"turn_seconds": turn_seconds, "warm_seconds": warm_seconds}
        given |= {"deadline": deadline, "losses": None if number else losses}
        given["may_be_only"] = number == 0 and rounds > 1
        before = dict(turns.failures)
        try:
            shortest = max(shortest, Round(turns, **given).take(contestants))
        except NotTogether:
            turns.forget_round(before)
            if together:
                break
            shortest = Apart(turns, **given).take(contestants)
        if after_round(turns) or math.isinf(shortest):
            break
    return turns
