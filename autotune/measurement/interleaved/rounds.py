"""A set of live processes that take turns."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.measurement.benchmark import WARM_WINDOW_SECONDS, WARM_WINDOW_STEPS, warm_up
from autotune.measurement.doubts import doubts_of_device
from autotune.measurement.processes.process import ProcessRun, RunEnded
from autotune.measurement.ratios import (
    FEWEST_TURNS_PER_PROCESS,
    MOST_TURNS_PER_PROCESS,
    are_enough_turns,
)
from autotune.measurement.readings.bursts import (
    Length,
    begun_epochs,
    fetched_ahead,
    length_of_turns,
    may_begin_its_second_epoch,
)
from autotune.measurement.readings.telemetry import sampled
from autotune.measurement.statistics import STEADY_WINDOWS, timed
from autotune.profiling.gpu import retries_within
from autotune.workload.window import AS_IS, Window, as_one

if TYPE_CHECKING:
    from autotune.measurement.interleaved.turns import LossSeconds, Turns

FEWEST_TURNS = 3  # a round of fewer says nothing of its spread
# Where one ended while it warmed up, the time of so many warm-ups is another's for as many steps.
MOST_WARM_UPS = 10
# Failures that may be others' doing, for what they hold; as one enters, a port or a file as well.
_FOR_LACK = ("out_of_memory", "device_lost", "device_error")
_AT_ENTRY = (*_FOR_LACK, "crashed")

Start = Callable[[], ProcessRun]


class NotTogether(Exception):
    """One of them failed while others lived, or ran short of memory: what it wants may be what they
    hold.
    """


class Round:
    """One set of processes and its turns: the first few of them soon after the start, the others
    once there are losses enough to compare. A gain that only the first steps have is not claimed.
    """

    def __init__(
        self,
        turns: "Turns",
        *,
        turn_seconds: float,
        warm_seconds: float,
        deadline: float,
        losses: "LossSeconds | None",
        may_be_only: bool,
    ) -> None:
        self._turns = turns
        self._turn_seconds = turn_seconds
        self._warm_seconds = warm_seconds
        self._deadline = deadline
        self._losses = losses
        self._may_be_only = may_be_only
        self._runs: dict[str, ProcessRun] = {}
        self._warm: dict[str, list[Window]] = {}
        self._lengths: dict[str, Length] = {}
        self._warmed = self._entering_seconds = 0.0
        self._contestants: Mapping[str, Start] = {}

    def take(self, contestants: Mapping[str, Start]) -> float:
        """All of it; the seconds that another such round takes, with as few turns as may be."""
        began = time.monotonic()
        self._contestants = contestants
        for name in contestants:
            self._turns.windows[name].append([])
        try:
            for name, start in contestants.items():
                if name not in self._turns.failures:
                    self._enter(name, start)
            self._warmed = time.monotonic()
            self._entering_seconds = self._warmed - began
            turn = self._take_turns(0, FEWEST_TURNS)
            self._count_whole_runs()
            ran_on = time.monotonic()
            self._complete_losses()
            self._warmed += time.monotonic() - ran_on
            turn = self._take_turns(turn)
            seconds = self._shortest_seconds(turn)
            if self._may_be_only and time.monotonic() + seconds > self._deadline:
                self._may_be_only = False  # it is: what was left for another is its own
                self._take_turns(turn)
            self._look_at_last()
            return seconds
        finally:
            for run in self._runs.values():
                run.kill()

    def _take_turns(self, turn: int, most: int = MOST_TURNS_PER_PROCESS) -> int:
        """Turns from number `turn` on, until there are enough; how many there are then."""
        while turn < most and not self._has_enough(turn) and self._take_turn(turn):
            turn += 1
        return turn

    def _shortest_seconds(self, turn: int) -> float:
        """What a round of the fewest turns takes, by the first `turn` turns of this one."""
        taking = time.monotonic() - self._warmed
        turns = FEWEST_TURNS_PER_PROCESS / turn if turn else 1.0  # or whole runs
        return self._entering_seconds + turns * taking

    def _has_enough(self, turn: int) -> bool:
        """Whether `turn` turns are enough: as few as do, more where they scatter and there is time.

        A second set of processes says more than many turns of the first: time for it is left.
        """
        now = time.monotonic()
        if turn < FEWEST_TURNS_PER_PROCESS:
            return turn >= FEWEST_TURNS and now > self._deadline
        one = (now - self._warmed) / turn
        next_round = one + self._shortest_seconds(turn) if self._may_be_only else 0.0
        if now + next_round > self._deadline:
            return True
        first, *others = (
            [timed(window) for window in rounds[-1]] for rounds in self._turns.windows.values()
        )
        there = (list(zip(first, other, strict=True)) for other in others if other)
        return all(map(are_enough_turns, there))

    def _enter(self, name: str, start: Start) -> None:
        """Start and warm up one contestant, then pause it."""
        run = self._runs[name] = start()
        warm = self._warm[name] = []
        try:
            ahead = fetched_ahead(run.seen())
            warm_up(run, warm, drain_batches=ahead, limit_seconds=self._warm_seconds)
            seen = run.seen()
            recent = as_one(warm[-STEADY_WINDOWS:])
            self._lengths[name] = length_of_turns(seen, recent, self._turn_seconds)
            self._turns.seen.setdefault(name, seen)
        except RunEnded as end:
            self._leave(name, end, while_entering=True)
            if name in self._turns.failures and name not in list(self._contestants)[:2]:
                del self._warm[name]  # the two that matter go on without it
        else:
            run.pause()
        self._keep_losses(name, warm)

    def _leave(self, name: str, end: RunEnded, *, while_entering: bool = False) -> None:
        """A contestant is gone: by itself, with its last window, or by a failure.

        Raises:
            NotTogether: alone it might not have failed.
        """
        self._runs.pop(name).kill()
        lived_so_before = len(self._turns.windows[name]) > 1
        may_be_anothers = end.failure.kind in (_AT_ENTRY if while_entering else _FOR_LACK)
        if self._runs and not lived_so_before and may_be_anothers:
            raise NotTogether
        if end.failure.kind != "ended":
            self._turns.failures[name] = end.failure
            return
        self._turns.ended.add(name)
        if end.window is not None and end.window.mode == AS_IS:
            self._warm[name].append(end.window)

    def _take_turn(self, turn: int) -> bool:
        """One turn of each; false when one of them is gone, and the turn is nobody's."""
        if len(self._runs) < len(self._warm):
            return False
        names = list(self._runs)
        taken: dict[str, Window] = {}
        for name in names if turn % 2 == 0 else names[::-1]:
            run = self._runs[name]
            try:
                self._leave_out(name, run, self._lengths[name].free_steps)
                taken[name] = self._timed(name, run, self._lengths[name], turn)
                if may_begin_its_second_epoch(self._turns.seen[name]):
                    self._look_again(name, run)
            except RunEnded as end:
                for other, window in taken.items():
                    self._warm[other].append(window)
                self._leave(name, end)
                return False
            run.pause()
        self._count(taken)
        return True

    def _leave_out(self, name: str, run: ProcessRun, steps: int) -> None:
        """Train on what was read while it was stopped: untimed, but part of all that it ran."""
        if steps:
            window = run.window(0.0, steps=steps)
            self._warm[name].append(window)
            self._keep_losses(name, [window])

    def _timed(self, name: str, run: ProcessRun, length: Length, turn: int) -> Window:
        """A window of one of them, after which it is paused: what its workers read ahead between
        two windows would cost it nothing.

        Raises:
            RunEnded: it ended, crashed, hung or was killed.
            NotTogether: it made do with the memory that others left it, which takes time.
        """
        with sampled(self._turns.seen[name], run.pid) as device:
            window = run.window(length.least_seconds, steps=length.steps)
            run.pause()
        before = self._turns.windows[name][-1] or self._warm[name]
        if len(self._runs) > 1 and retries_within([window], before):
            raise NotTogether
        self._keep_losses(name, [window])
        if doubts_of_device(device.telemetry):
            self._turns.disturbed.add((len(self._turns.windows[name]) - 1, turn))
        return window

    def _count(self, taken: Mapping[str, Window]) -> None:
        for name, window in taken.items():
            self._turns.windows[name][-1].append(window)

    def _count_whole_runs(self) -> None:
        """Where a program ended before its first turn, all that each of them ran is one turn; where
        one failed, there is none.

        Those that live run on before: the first steps, which one may have warmed up with, are slow,
        and another may have had its batches read for it.
        """
        if any(self._turns.windows[name][-1] for name in self._warm):
            return
        most = max((_steps(windows) for windows in self._warm.values()), default=0)
        for name, run in tuple(self._runs.items()):
            if not self._have_failed():
                self._run_on(name, run, most)
        if self._have_failed() or any(_steps(self._warm[name]) < most for name in self._runs):
            return
        for name, windows in self._warm.items():
            if windows:
                self._turns.windows[name][-1].append(as_one(windows))

    def _have_failed(self) -> bool:
        return bool(self._turns.failures.keys() & self._warm)

    def _run_on(self, name: str, run: ProcessRun, steps: int) -> None:
        """Go on as in the warm-up until there are so many steps of it, or it ends."""
        warm = self._warm[name]
        before = len(warm)
        ends = time.monotonic() + MOST_WARM_UPS * self._warm_seconds
        try:
            while _steps(warm) < steps and time.monotonic() < ends:
                warm.append(run.window(WARM_WINDOW_SECONDS, steps=WARM_WINDOW_STEPS))
        except RunEnded as end:
            self._leave(name, end)
        else:
            run.pause()
        self._keep_losses(name, warm[before:])

    def _complete_losses(self) -> None:
        """Run on, without timing, until there are losses enough to compare the trainings."""
        if self._losses is None:
            return
        for name, run in tuple(self._runs.items()):
            began = time.monotonic()
            losses = self._turns.losses[name]
            if not self._losses.want_more(len(losses), 0.0):
                continue
            try:
                while self._losses.want_more(len(losses), time.monotonic() - began):
                    self._keep_losses(name, [run.window(0.0)])
                self._look_again(name, run)
            except RunEnded as end:
                self._leave(name, end)
            else:
                run.pause()

    def _look_at_last(self) -> None:
        """See what those that live have come to."""
        for name, run in tuple(self._runs.items()):
            try:
                self._look_again(name, run)
            except RunEnded as end:
                self._leave(name, end)

    def _look_again(self, name: str, run: ProcessRun) -> None:
        """By now it may have begun another epoch; after the next turn it may be over. What an
        earlier round's process was seen to begin is not forgotten.
        """
        seen = run.seen()
        if begun_epochs(seen) >= begun_epochs(self._turns.seen[name]):
            self._turns.seen[name] = seen

    def _keep_losses(self, name: str, windows: Sequence[Window]) -> None:
        """Losses, and the steps left out among those that are compared."""
        for window in windows if self._losses else ():
            self._turns.keep_losses(name, window)


def _steps(windows: Sequence[Window]) -> int:
    return sum(window.steps for window in windows)
