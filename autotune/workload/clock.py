"""Time by phase: the host's clock, or pooled CUDA events that are read only when a window's edge is
drained.
"""

import time
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

_NONE = ""  # outside every span


class Clock(Protocol):
    """Spans may nest; a span's time excludes the spans inside it."""

    def begin(self, phase: str) -> None:
        """Open a span of `phase`."""

    def end(self) -> None:
        """Close the innermost span."""

    def drain(self) -> dict[str, float]:
        """Wait for the device, give the seconds by phase since the last drain, and start again from
        zero.
        """


class HostClock:
    """Phases by the host's clock: exact where the host computes itself."""

    def __init__(self) -> None:
        self._phase = _NONE
        self._outer: list[str] = []
        self._totals: defaultdict[str, float] = defaultdict(float)
        self._since = time.perf_counter()

    def begin(self, phase: str) -> None:
        now = time.perf_counter()
        self._totals[self._phase] += now - self._since
        self._outer.append(self._phase)
        self._phase, self._since = phase, now

    def end(self) -> None:
        now = time.perf_counter()
        self._totals[self._phase] += now - self._since
        self._phase, self._since = self._outer.pop(), now

    def drain(self) -> dict[str, float]:
        now = time.perf_counter()
        self._totals[self._phase] += now - self._since
        self._since = now
        totals = {phase: seconds for phase, seconds in self._totals.items() if phase != _NONE}
        self._totals.clear()
        return totals


class CudaClock:
    """Phases as the device lived them: an event on the current stream wherever the phase changes,
    resolved after a synchronise at the edge.

    A wait for data is so the time in which the device had nothing queued, not the time in which the
    host waited.
    """

    def __init__(self) -> None:
        self._phase = _NONE
        self._outer: list[str] = []
        self._changes: list[tuple[str, torch.cuda.Event]] = []
        self._pool: list[torch.cuda.Event] = []

    def begin(self, phase: str) -> None:
        self._outer.append(self._phase)
        self._change(phase)

    def end(self) -> None:
        self._change(self._outer.pop())

    def drain(self) -> dict[str, float]:
        import torch

        torch.cuda.synchronize()
        totals: defaultdict[str, float] = defaultdict(float)
        for (phase, began), (_, ended) in pairwise(self._changes):
            if phase != _NONE:
                totals[phase] += began.elapsed_time(ended) / 1000
        self._pool += [event for _, event in self._changes]
        self._changes = []
        return dict(totals)

    def _change(self, phase: str) -> None:
        import torch

        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record()
        self._phase = phase
        self._changes.append((phase, event))
