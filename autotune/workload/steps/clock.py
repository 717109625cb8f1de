"""Time by phase: the host's clock, or pooled CUDA events that are read only when a window's edge is
drained.

Nothing here wakes CUDA up in a process that has not done so itself: a program may still choose its
GPU, fork, or train on the CPU beside one.
"""

import operator
import time
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

Note = Callable[[Any], None]


class Clock(Protocol):
    """Seams have what the program calls called as a span of a phase: `timed = clock.timed(phase)`,
    then `timed(call, *args)`. Spans may nest; a span's time excludes the spans inside it.
    """

    def timed(self, phase: str, /) -> Callable[..., Any]:
        """What calls its first argument with the others, as a span of `phase`."""

    def take_back(self, phase: str, /, count: int = 1, *, but: int = 0) -> None:
        """The last `count` spans of `phase`, but for the last ones of all, were of none."""

    def is_open(self, phase: str, /) -> bool:
        """Whether a span of `phase` has begun and not ended; may be asked from any thread."""

    def follow(self, device: "torch.device") -> None:
        """The training is known to go on there."""

    def pass_over(self) -> None:
        """Start again from zero here, without waiting for the device."""

    def drain(self) -> dict[str, float]:
        """Wait for the device, give the seconds by phase since the last drain, or since what was
        passed over, and start again from zero.
        """


class Untimed:
    """Keeps nothing, for runs of which nobody asks how their time is split."""

    def __init__(self) -> None:
        self._device: torch.device | None = None

    def timed(self, _: str, /) -> Callable[..., Any]:
        return operator.call

    def take_back(self, _: str, /, count: int = 1, *, but: int = 0) -> None:
        """There is none."""

    def is_open(self, _: str, /) -> bool:
        return False

    def follow(self, device: "torch.device") -> None:
        self._device = device

    def pass_over(self) -> None:
        """There is nothing."""

    def drain(self) -> dict[str, float]:
        if self._device is not None and self._device.type == "cuda":
            import torch

            torch.cuda.synchronize(self._device)
        return {}


class _Spans:
    """Moments at which spans began and ended, by phase, and what they add up to. On the host to
    note one is a call of C that keeps eight bytes: what a hook runs in Python, and each object that
    it makes, costs most where it comes cold, between two steps' own work.

    Args:
        log: makes an empty sequence of moments.
        elapsed: seconds from one moment to a later one.
    """

    def __init__(
        self, log: Callable[[], MutableSequence[Any]], elapsed: Callable[[Any, Any], float]
    ) -> None:
        self._began = defaultdict[str, MutableSequence[Any]](log)
        self._ended = defaultdict[str, MutableSequence[Any]](log)
        self._elapsed = elapsed
        self._open: list[str] = []
        self._since: Any = None

    def span(self, phase: str) -> tuple[Note, Note]:
        return self._began[phase].append, self._ended[phase].append

    def timed(self, phase: str, now: Callable[[], Any]) -> Callable[..., Any]:
        began, ended = self.span(phase)

        def timed(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            began(now())
            try:
                return call(*args, **kwargs)
            finally:
                ended(now())

        return timed

    def take_back(self, phase: str, count: int = 1, *, but: int = 0) -> None:
        for log in (self._began[phase], self._ended[phase]):
            end = len(log) - but
            del log[max(0, end - count) : end]

    def is_open(self, phase: str) -> bool:
        return self._open.count(phase) + len(self._began[phase]) > len(self._ended[phase])

    def take(self) -> list[tuple[Any, bool, str]]:
        """All that was noted, in order: moment, whether a span ends there, and its phase."""
        noted = [
            (moment, ends, phase)
            for ends, logs in ((False, self._began), (True, self._ended))
            for phase, log in logs.items()
            for moment in log
        ]
        for log in (*self._began.values(), *self._ended.values()):
            del log[:]
        return sorted(noted, key=_by_the_host)

    def totals(self, noted: list[tuple[Any, bool, str]], edge: Any) -> dict[str, float]:
        """Seconds by phase of what was taken, up to the edge, from which the next are counted."""
        totals: defaultdict[str, float] = defaultdict(float)
        for phase, since, moment in self._stretches(noted, edge):
            totals[phase] += self._elapsed(since, moment)
        return dict(totals)

    def pass_over(self, noted: list[tuple[Any, bool, str]], edge: Any) -> None:
        """What was taken is of no count; the next is counted from the edge."""
        deque(self._stretches(noted, edge), maxlen=0)

    def _stretches(
        self, noted: list[tuple[Any, bool, str]], edge: Any
    ) -> Iterator[tuple[str, Any, Any]]:
        """Which phase it was, from one moment to another; in none there is no stretch."""
        for moment, ends, phase in (*noted, (edge, True, "")):
            if self._open:
                yield self._open[-1], self._since, moment
            if not ends:
                self._open.append(phase)
            elif phase in self._open:  # another thread's span may have been in between
                del self._open[len(self._open) - 1 - self._open[::-1].index(phase)]  # the last
            self._since = moment


def _by_the_host(noted: tuple[Any, bool, str]) -> tuple[float, bool]:
    moment, ends, _ = noted
    return (moment[0] if isinstance(moment, tuple) else moment), ends


class HostClock:
    """Phases by the host's clock: exact where the host computes itself."""

    def __init__(self) -> None:
        self._spans = _Spans(lambda: array("d"), lambda since, moment: moment - since)
        self.span, self.take_back = self._spans.span, self._spans.take_back
        self.is_open, self.now = self._spans.is_open, time.perf_counter

    def timed(self, phase: str) -> Callable[..., Any]:
        return self._spans.timed(phase, self.now)

    def follow(self, device: "torch.device") -> None:
        """It is the host."""

    def pass_over(self) -> None:
        self._spans.pass_over(self._spans.take(), self.now())

    def drain(self) -> dict[str, float]:
        return self._spans.totals(self._spans.take(), self.now())


Moment = tuple[float, "torch.cuda.Event | None"]  # by the host's clock, and by the device's


class _Events:
    """Events of one GPU, on whatever is its current stream, taken from a pool.

    torch's own functions for that look up in Python, each time, what is the same all along: ten of
    them a step would show in a short one. This asks what they ask.
    """

    def __init__(self, device: "torch.device") -> None:
        import torch

        self.device = device
        self._is_capturing = torch._C._cuda_isCurrentStreamCapturing
        self._stream_now = torch._C._cuda_getCurrentStream
        self._record = torch._C._CudaEventBase.record
        self._make: Any = torch.cuda.Event
        self._stream = torch.cuda.current_stream
        self._streams: dict[tuple[int, ...], torch.cuda.Stream] = {}
        self._pool: list[torch.cuda.Event] = []

    def take(self) -> "torch.cuda.Event | None":
        """One that is recorded now; None while a graph is captured."""
        if self._is_capturing():
            return None
        try:
            event = self._pool.pop()
        except IndexError:  # asking first would be too early: threads may take from it
            event = self._make(enable_timing=True)
        which = self._stream_now(self.device.index)
        stream = self._streams.get(which)
        if stream is None:
            stream = self._streams[which] = self._stream(self.device)
        self._record(event, stream)
        return event

    def give_back(self, events: "Iterable[torch.cuda.Event | None]") -> None:
        """Those that were read, to be taken again."""
        self._pool += [event for event in events if event is not None]


class CudaClock:
    """Phases as the device lived them: an event on its current stream wherever the phase changes,
    resolved after a synchronise at the edge.

    A wait for data is so the time in which the device had nothing queued, not the time in which the
    host waited. Until it is known which GPU trains, if any does, and while a CUDA graph is
    captured, into which events would go, it is the host's clock.
    """

    def __init__(self) -> None:
        self._spans = _Spans(list, _elapsed)
        self.span, self.take_back = self._spans.span, self._spans.take_back
        self.is_open = self._spans.is_open
        self._events: _Events | None = None  # an event is for one device
        self._edge: torch.cuda.Event | None = None  # from which the open span is counted on

    def timed(self, phase: str) -> Callable[..., Any]:
        return self._spans.timed(phase, self.now)

    def follow(self, device: "torch.device") -> None:
        found = device if device.type == "cuda" else None
        if found != (self._events.device if self._events else None):
            self._spans.take()  # moments of two devices cannot be compared
            self._spans.totals([], (time.perf_counter(), None))
            self._events, self._edge = _Events(found) if found else None, None

    def now(self) -> Moment:
        event = self._events.take() if self._events else None
        return time.perf_counter(), event

    def drain(self) -> dict[str, float]:
        import torch

        noted, edge = self._spans.take(), self.now()
        if self._events is not None:
            torch.cuda.synchronize(self._events.device)
        totals = self._spans.totals(noted, edge)
        self._count_from(edge, noted)
        return totals

    def pass_over(self) -> None:
        noted, edge = self._spans.take(), self.now()
        self._spans.pass_over(noted, edge)
        self._count_from(edge, noted)

    def _count_from(self, edge: Moment, noted: "list[tuple[Moment, bool, str]]") -> None:
        """The events of what was noted before the edge may be taken again."""
        if self._events is not None:
            self._events.give_back([event for (_, event), _, _ in noted] + [self._edge])
        self._edge = edge[1]


def _elapsed(since: Moment, moment: Moment) -> float:
    """Seconds by the device's clock where it was asked at both."""
    if since[1] is None or moment[1] is None:
        return moment[0] - since[0]
    return float(since[1].elapsed_time(moment[1])) / 1000
