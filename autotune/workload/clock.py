"""Time by phase: the host's clock, or pooled CUDA events that are read only when a window's edge is
drained.
"""

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Clock(Protocol):
    """Spans may nest; a span's time excludes the spans inside it."""

    def begin(self) -> None:
        """Open a span."""

    def end(self, phase: str) -> None:
        """Close the innermost span and count it as `phase`."""

    def drain(self) -> dict[str, float]:
        """Wait for the device, give the seconds by phase since the last drain, and start again from
        zero.
        """


class HostClock:
    """Phases by the host's clock: exact where the host computes itself."""

    def __init__(self) -> None:
        self._open: list[list[float]] = []
        self._totals: dict[str, float] = {}

    def begin(self) -> None:
        self._open.append([time.perf_counter(), 0.0])

    def end(self, phase: str) -> None:
        began, inner = self._open.pop()
        span = time.perf_counter() - began
        self._totals[phase] = self._totals.get(phase, 0.0) + span - inner
        if self._open:
            self._open[-1][1] += span

    def drain(self) -> dict[str, float]:
        totals, self._totals = self._totals, {}
        return totals


class CudaClock:
    """Phases as the device lived them: an event pair on the current stream, resolved after a
    synchronise at the edge.

    A wait for data is so the time in which the device had nothing queued, not the time in which the
    host waited.
    """

    def __init__(self) -> None:
        self._pool: list[torch.cuda.Event] = []
        self._open: list[int] = []
        self._spans: list[tuple[str, torch.cuda.Event, torch.cuda.Event | None, int]] = []

    def begin(self) -> None:
        self._open.append(len(self._spans))
        self._spans.append(
            ("", self._record(), None, self._open[-2] if len(self._open) > 1 else -1)
        )

    def end(self, phase: str) -> None:
        index = self._open.pop()
        _, began, _, parent = self._spans[index]
        self._spans[index] = (phase, began, self._record(), parent)

    def drain(self) -> dict[str, float]:
        import torch

        torch.cuda.synchronize()
        totals: dict[str, float] = {}
        for phase, began, ended, parent in self._spans:
            if ended is None:
                continue
            seconds = began.elapsed_time(ended) / 1000
            totals[phase] = totals.get(phase, 0.0) + seconds
            if parent >= 0 and self._spans[parent][2] is not None:
                outer = self._spans[parent][0]
                totals[outer] = totals.get(outer, 0.0) - seconds
            self._pool += (began, ended)
        self._spans = []
        self._open = []
        return totals

    def _record(self) -> "torch.cuda.Event":
        import torch

        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record()
        return event
