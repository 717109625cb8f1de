"""Phases by the clock: nested spans, edges, and the device's own events."""

import time
from collections.abc import Callable

import pytest
import torch

from autotune.workload.clock import END, Clock, CudaClock, HostClock

CLOCKS = {"host": HostClock, "cuda": CudaClock}


class Moments:
    """A clock that is set by hand, as the host's and as the device's."""

    def __init__(self) -> None:
        self.now = 100.0

    def event(self, *, enable_timing: bool) -> "Event":
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def record(self) -> None:
        self.at = self._moments.now

    def elapsed_time(self, later: "Event") -> float:
        return 1000 * (later.at - self.at)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    moments = Moments()
    monkeypatch.setattr(time, "perf_counter", lambda: moments.now)
    monkeypatch.setattr(torch.cuda, "Event", moments.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return moments


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_a_span_excludes_the_spans_inside_it_and_what_is_outside_all(
    kind: Callable[[], Clock], moments: Moments
) -> None:
    clock = kind()
    for phase, seconds in (("data", 1.0), ("forward", 2.0)):
        moments.now += 5
        clock.mark((phase, clock.now()))
        moments.now += seconds
        clock.mark(("copy", clock.now()))
        moments.now += 0.25
        clock.mark((END, clock.now()))
        moments.now += seconds
        clock.mark((END, clock.now()))
    assert clock.drain() == {"data": 2.0, "forward": 4.0, "copy": 0.5}


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_a_drained_clock_begins_again(kind: Callable[[], Clock], moments: Moments) -> None:
    clock = kind()
    clock.mark(("data", clock.now()))
    moments.now += 1
    clock.mark((END, clock.now()))
    clock.drain()
    moments.now += 7
    clock.mark(("data", clock.now()))
    moments.now += 3
    clock.mark((END, clock.now()))
    assert clock.drain() == {"data": 3.0}
    assert clock.drain() == {}


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_a_span_that_is_open_at_the_edge_can_still_be_closed(
    kind: Callable[[], Clock], moments: Moments
) -> None:
    clock = kind()
    clock.mark(("optimizer", clock.now()))
    moments.now += 1
    clock.drain()
    moments.now += 1
    clock.mark((END, clock.now()))
    assert sum(clock.drain().values()) <= 1


def test_the_events_of_the_device_are_used_again(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: made.append(1) or Event(moments))
    clock = CudaClock()
    for _ in range(5):
        clock.mark(("forward", clock.now()))
        clock.mark((END, clock.now()))
        clock.drain()
    assert len(made) == 4  # a span's two, and those of two edges
