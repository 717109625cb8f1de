"""Turns of processes that cannot live side by side: a fresh one for each, alone."""

import math
import time
from collections.abc import Mapping

from autotune.measurement.interleaved.rounds import Round, Start
from autotune.measurement.processes.process import RunEnded
from autotune.workload.window import Window

# A turn of a process that was started for it alone is worth so many others.
TURNS_APART = 3


class Apart(Round):
    """Turns of processes that cannot live side by side (device memory for one of them, a port): for
    each turn a fresh one, alone.
    """

    def take(self, contestants: Mapping[str, Start]) -> float:
        """All of it; there is no further round, since every turn has processes of its own."""
        for name in contestants:
            self._turns.windows[name].append([])
        self._contestants = contestants
        self._out, self._turn_took = set[str](), 0.0
        self._may_be_only = False
        self._warmed = time.monotonic()
        self._take_turns(0)
        return math.inf

    def _take_turn(self, turn: int) -> bool:
        taken: dict[str, Window] = {}
        began = time.monotonic()
        out = self._out | self._turns.failures.keys()
        names = [name for name in self._contestants if name not in out]
        for name in names if turn % 2 == 0 else names[::-1]:
            window = self._alone(name, turn)
            if window is not None:
                taken[name] = window
            elif name in list(self._contestants)[:2]:
                return False
            else:  # the two that matter go on without it
                self._turns.windows[name][-1].clear()
                self._out.add(name)
        self._count(taken)
        self._losses = None  # those of the first processes are kept
        self._turn_took = time.monotonic() - began
        return True

    def _alone(self, name: str, turn: int) -> Window | None:
        """The window of a process of its own; None where it had none."""
        try:
            self._enter(name, self._contestants[name])
            if name not in self._runs:
                return None
            length = self._lengths[name].alone(TURNS_APART)
            window = self._timed(name, self._runs[name], length, turn)
            self._look_again(name, self._runs[name])
            self._complete_losses()
        except RunEnded as end:
            self._leave(name, end)
            return None
        else:
            return window
        finally:
            for run in self._runs.values():
                run.kill()
            self._runs.clear()

    def _has_enough(self, turn: int) -> bool:
        """As few as do may end later than they should, but not by more than a turn."""
        late = time.monotonic() - self._deadline
        return (turn > 0 and late > self._turn_took) or super()._has_enough(turn)
