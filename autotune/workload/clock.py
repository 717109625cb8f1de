"""Time by phase: the host's clock, or pooled CUDA events that are read only when a window's edge is
drained.
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

    def drain(self) -> dict[str, float]:
        self.mark((_EDGE, self.now()))
        return self._spans.totals()


class CudaClock:
    """Phases as the device lived them: an event on the current stream wherever the phase changes,
    resolved after a synchronise at the edge.

    A wait for data is so the time in which the device had nothing queued, not the time in which the
    host waited.
    """

    def __init__(self) -> None:
        self._spans = _Spans(lambda since, moment: since.elapsed_time(moment) / 1000)
        self.mark = self._spans.marks.append
        self._pool: list[torch.cuda.Event] = []
        self._edge: torch.cuda.Event | None = None  # from which the open span is counted on

    def now(self) -> "torch.cuda.Event":
        import torch

        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def drain(self) -> dict[str, float]:
        import torch

        edge = self.now()
        self.mark((_EDGE, edge))
        torch.cuda.synchronize()
        passed = [event for _, event in self._spans.marks if event is not edge]
        totals = self._spans.totals()
        self._pool += passed if self._edge is None else [*passed, self._edge]
        self._edge = edge
        return totals
