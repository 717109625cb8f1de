"""Live processes taking turns, so that a difference between them is theirs and not the hour's."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.measurement.benchmark import WARM_LIMIT_SECONDS, fetched_ahead, warm_up
from autotune.measurement.measurement import Failure
from autotune.measurement.process import ProcessRun, RunEnded
from autotune.workload.seen import Seen
from autotune.workload.window import Window

# Two warmed processes taking turns of 0.4 s: 7 % rms error, against 12 % one after the other.
TURN_SECONDS = 0.4
TURN_STEPS = 2


@dataclass(slots=True, kw_only=True)
class Turns:
    """What taking turns gave: for each contestant its windows by round (a round is a fresh set of processes).

    Turn `i` of a round is the same moment for every contestant. `losses` are those of the first round, from the
    program's first step on. `failures` names who could not be measured, and why.
    """

    windows: dict[str, list[list[Window]]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    @property
    def turns(self) -> int:
        """Turns taken so far, over all rounds."""
        return sum(len(taken) for taken in next(iter(self.windows.values()), []))


def take_turns(
    contestants: Mapping[str, Callable[[], ProcessRun]],
    *,
    rounds: int,
    turns_per_round: int,
    deadline: float,
    turn_seconds: float = TURN_SECONDS,
    after_round: Callable[[Turns], bool] = lambda turns: False,
) -> Turns:
    """Run the contestants in turns, in fresh processes each round.

    Args:
        contestants: starts a fresh process, by name; the first is the baseline.
        rounds: sets of processes; two identical processes differ lastingly by a few percent.
        turns_per_round: turns that each takes in a round.
        deadline: `time.monotonic()` after which no further turn is begun.
        turn_seconds: length of one turn, in seconds.
        after_round: is shown what there is after each round; true ends it.
    """
    turns = Turns(windows={name: [] for name in contestants}, losses={name: [] for name in contestants})
    for number in range(rounds):
        if number and time.monotonic() > deadline:
            break
        _take_round(turns, contestants, turns_per_round, deadline, turn_seconds, keep_losses=number == 0)
        if after_round(turns):
            break
    return turns


def _take_round(
    turns: Turns,
    contestants: Mapping[str, Callable[[], ProcessRun]],
    count: int,
    deadline: float,
    turn_seconds: float,
    *,
    keep_losses: bool,
) -> None:
    for name in contestants:
        turns.windows[name].append([])
    runs: dict[str, ProcessRun] = {}
    try:
        for name, start in contestants.items():
            if name not in turns.failures:
                _enter(turns, runs, name, start, keep_losses)
        for turn in range(count):
            if time.monotonic() > deadline and turn >= 3:  # a round of fewer says nothing of its spread
                break
            names: Sequence[str] = list(runs)
            taken = _take_turn(turns, runs, names if turn % 2 == 0 else names[::-1], turn_seconds, keep_losses)
            if not taken:
                break
    finally:
        for run in runs.values():
            run.kill()


def _enter(
    turns: Turns, runs: dict[str, ProcessRun], name: str, start: Callable[[], ProcessRun], keep_losses: bool
) -> None:
    """Start and warm up one contestant, then pause it."""
    run = start()
    try:
        run.await_first_step()
        warm = warm_up(run, drain_batches=fetched_ahead(run.seen()), limit_seconds=WARM_LIMIT_SECONDS)
        turns.seen.setdefault(name, run.seen())
    except RunEnded as end:
        turns.failures[name] = end.failure
        return
    except BaseException:
        run.kill()
        raise
    if keep_losses:
        turns.losses[name] += [loss for window in warm for loss in window.losses]
    run.pause()
    runs[name] = run


def _take_turn(
    turns: Turns, runs: dict[str, ProcessRun], names: Sequence[str], seconds: float, keep_losses: bool
) -> bool:
    """One turn of each; false when one of them came to its end, and the turn is nobody's."""
    taken: dict[str, Window] = {}
    for name in names:
        try:
            window = runs[name].window(seconds, steps=TURN_STEPS)
        except RunEnded as end:
            if end.failure.kind != "ended":
                turns.failures[name] = end.failure
            if keep_losses and end.window:
                turns.losses[name] += end.window.losses
            return False
        runs[name].pause()
        taken[name] = window
        if keep_losses:
            turns.losses[name] += window.losses
    for name, window in taken.items():
        turns.windows[name][-1].append(window)
    return True
