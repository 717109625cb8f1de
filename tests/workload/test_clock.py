"""Phases by the clock: nested spans, edges, and the device's own events."""

import time
from collections.abc import Callable

import pytest
import torch

from autotune.workload.steps.clock import Clock, CudaClock, HostClock

GPU = torch.device("cuda", 1)


def of_gpu() -> CudaClock:
    """A clock of the second GPU."""
    clock = CudaClock()
    clock.follow(GPU)
    return clock


# The last one is before anyone knows where the training goes on.
CLOCKS = {"host": HostClock, "cuda": of_gpu, "unknown": CudaClock}


def begin(clock: Clock, phase: str) -> None:
    clock.span(phase)[0](clock.now())


def end(clock: Clock, phase: str) -> None:
    clock.span(phase)[1](clock.now())


class Moments:
    """A clock that is set by hand, as the host's and as the device's."""

    def __init__(self) -> None:
        self.now = 100.0
        self.capturing = False

    def event(self, *, enable_timing: bool) -> "Event":
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def record(self, stream: torch.device) -> None:
        assert stream == GPU and not self._moments.capturing
        self.at = self._moments.now

    def elapsed_time(self, later: "Event") -> float:
        return 1000 * (later.at - self.at)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    moments = Moments()
    monkeypatch.setattr(time, "perf_counter", lambda: moments.now)
    monkeypatch.setattr(torch.cuda, "Event", moments.event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
    monkeypatch.setattr(torch._C, "_CudaEventBase", Event)
    monkeypatch.setattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: moments.capturing)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentStream", default_stream, raising=False)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronise)
    return moments


def default_stream(index: int) -> tuple[int, int, int]:
    return 0, index, 1


def synchronise(device: torch.device) -> None:
    assert device == GPU


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_a_span_excludes_the_spans_inside_it_and_what_is_outside_all(
    kind: Callable[[], Clock], moments: Moments
) -> None:
    clock = kind()
    for phase, seconds in (("data", 1.0), ("forward", 2.0)):
        moments.now += 5
        begin(clock, phase)
        moments.now += seconds
        begin(clock, "copy")
        moments.now += 0.25
        end(clock, "copy")
        moments.now += seconds
        end(clock, phase)
    assert clock.drain() == {"data": 2.0, "forward": 4.0, "copy": 0.5}


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_a_drained_clock_begins_again(kind: Callable[[], Clock], moments: Moments) -> None:
    clock = kind()
    begin(clock, "data")
    moments.now += 1
    end(clock, "data")
    clock.drain()
    moments.now += 7
    begin(clock, "data")
    moments.now += 3
    end(clock, "data")
    assert clock.drain() == {"data": 3.0}
    assert clock.drain() == {}


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_what_is_passed_over_is_not_counted_and_not_waited_for(
    kind: Callable[[], Clock], moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = kind()
    begin(clock, "data")
    moments.now += 1
    end(clock, "data")
    begin(clock, "forward")
    moments.now += 2
    with monkeypatch.context() as context:
        context.setattr(torch.cuda, "synchronize", lambda _: pytest.fail("it would wait"))
        clock.pass_over()
    moments.now += 4
    end(clock, "forward")
    assert clock.drain() == {"forward": 4.0}


@pytest.mark.parametrize("kind", CLOCKS.values(), ids=CLOCKS)
def test_a_span_that_is_open_at_the_edge_can_still_be_closed(
    kind: Callable[[], Clock], moments: Moments
) -> None:
    clock = kind()
    begin(clock, "optimizer")
    moments.now += 1
    clock.drain()
    moments.now += 1
    end(clock, "optimizer")
    assert sum(clock.drain().values()) <= 1


def test_the_events_of_the_device_are_used_again(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: made.append(1) or Event(moments))
    clock = of_gpu()
    for _ in range(5):
        begin(clock, "forward")
        end(clock, "forward")
        clock.drain()
    assert len(made) == 4  # a span's two, and those of two edges


def test_each_stream_is_looked_up_once(moments: Moments, monkeypatch: pytest.MonkeyPatch) -> None:
    current, looked_up, recorded = [(0, 1, 1)], [], []

    def look_up(device: torch.device) -> tuple[int, ...]:
        looked_up.append(current[0])
        return current[0]

    monkeypatch.setattr(torch._C, "_cuda_getCurrentStream", lambda _: current[0], raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", look_up)
    monkeypatch.setattr(Event, "record", lambda _, stream: recorded.append(stream))
    clock = of_gpu()
    streams = [(0, 1, 1), (0, 1, 1), (35, 1, 1), (0, 1, 1), (35, 1, 1)]
    for current[0] in streams:
        clock.now()
    assert recorded == streams
    assert looked_up == [(0, 1, 1), (35, 1, 1)]


def test_while_a_graph_is_captured_time_is_the_hosts(moments: Moments) -> None:
    clock = of_gpu()
    begin(clock, "forward")
    moments.capturing = True
    moments.now += 1
    begin(clock, "backward")
    moments.now += 2
    end(clock, "backward")
    moments.capturing = False
    moments.now += 4
    end(clock, "forward")
    assert clock.drain() == {"forward": 5.0, "backward": 2.0}


def test_events_of_one_gpu_are_not_used_for_another(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = of_gpu()
    begin(clock, "forward")
    end(clock, "forward")
    clock.drain()
    clock.span("forward")[0](clock.now())  # still open, on the device of before
    clock.follow(torch.device("cpu"))
    clock.span("forward")[1](clock.now())
    clock.drain()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: pytest.fail("no GPU is at work"))
    begin(clock, "forward")
    moments.now += 1
    end(clock, "forward")
    assert clock.drain() == {"forward": 1.0}
