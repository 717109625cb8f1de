"""Time by phase: the host's clock, or pooled CUDA events that are read only when a window's edge is
drained.

Nothing here wakes CUDA up in a process that has not done so itself: a program may still choose its
GPU, fork, or train on the CPU beside one.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

END = None  # closes the innermost span
_EDGE = ""  # neither begins nor ends one


class Clock(Protocol):
    """Seams note where spans begin and end, `mark((phase, now()))` and `mark((END, now()))`. On the
    host both are calls of C: what a hook runs in Python costs most where it runs cold, between two
    steps' own work. Spans may nest; a span's time excludes the spans inside it.
    """

    @property
    def mark(self) -> Callable[[tuple[str | None, Any]], None]:
        """Notes that a span of a phase begins at a moment, or that one ends."""

    @property
    def now(self) -> Callable[[], Any]:
        """The moment that it is."""

    def follow(self, device: "torch.device") -> None:
        """The training is known to go on there."""

    def drain(self) -> dict[str, float]:
        """Wait for the device, give the seconds by phase since the last drain, and start again from
        zero.
        """


class _Spans:
    """Marks, and what they add up to.

    Args:
        elapsed: seconds from one moment to a later one.
    """

    def __init__(self, elapsed: Callable[[Any, Any], float]) -> None:
        self.marks: list[tuple[str | None, Any]] = []
        self._elapsed = elapsed
        self._open: list[str] = []
        self._since: Any = None

    def totals(self) -> dict[str, float]:
        """Seconds by phase up to the last mark, from which the next are counted."""
        totals: defaultdict[str, float] = defaultdict(float)
        for phase, moment in self.marks:
            if self._open:
                totals[self._open[-1]] += self._elapsed(self._since, moment)
            if phase is END:
                del self._open[-1:]  # another thread's span may have been in between
            elif phase != _EDGE:
                self._open.append(phase)
            self._since = moment
        self.marks.clear()
        return dict(totals)


class HostClock:
    """Phases by the host's clock: exact where the host computes itself."""

    def __init__(self) -> None:
        self._spans = _Spans(lambda since, moment: moment - since)
        self.mark = self._spans.marks.append
        self.now = time.perf_counter

    def follow(self, device: "torch.device") -> None:
        """It is the host."""

    def drain(self) -> dict[str, float]:
        self.mark((_EDGE, self.now()))
        return self._spans.totals()


Moment = tuple[float, "torch.cuda.Event | None"]  # by the host's clock, and by the device's


class CudaClock:
    """Phases as the device lived them: an event on its current stream wherever the phase changes,
    resolved after a synchronise at the edge.

    A wait for data is so the time in which the device had nothing queued, not the time in which the
    host waited. Until it is known which GPU trains, if any does, and while a CUDA graph is
    captured, into which events would go, it is the host's clock.
    """

    def __init__(self) -> None:
        self._spans = _Spans(_elapsed)
        self.mark = self._spans.marks.append
        self._device: torch.device | None = None
        self._pool: list[torch.cuda.Event] = []  # an event is for one device
        self._edge: torch.cuda.Event | None = None  # from which the open span is counted on

    def follow(self, device: "torch.device") -> None:
        found = device if device.type == "cuda" else None
        if found != self._device:
            self._device, self._pool, self._edge = found, [], None

    def now(self) -> Moment:
        import torch

        if self._device is None or torch.cuda.is_current_stream_capturing():
            return time.perf_counter(), None
        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return time.perf_counter(), event

    def drain(self) -> dict[str, float]:
        import torch

        edge = self.now()
        self.mark((_EDGE, edge))
        if self._device is not None:
            torch.cuda.synchronize(self._device)
        passed = [event for _, (_, event) in self._spans.marks if event not in (None, edge[1])]
        totals = self._spans.totals()
        self._pool += passed if self._edge is None else [*passed, self._edge]
        self._edge = edge[1]
        return totals


def _elapsed(since: Moment, moment: Moment) -> float:
    """Seconds by the device's clock where it was asked at both."""
    if since[1] is None or moment[1] is None:
        return moment[0] - since[0]
    return float(since[1].elapsed_time(moment[1])) / 1000
