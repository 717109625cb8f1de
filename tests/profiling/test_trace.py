"""What the device did and why it was idle, from time lines made by hand."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.profiling.trace import _SKEW_MICROSECONDS, Trace, _idle, _Sync, parse_trace

HOST = {"pid": 1, "tid": 1}


class TimeLine:
    """A profiler's trace, in microseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = [
            {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": -500, "dur": 9000},
            {"ph": "i", "name": "Iteration Start", "ts": 0},
        ]
        self.correlation = 0

    def add(self, cat: str, name: str, ts: float, dur: float, **args: Any) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, **HOST, "args": args}
        self.events.append(event)

    def kernel(self, launched: float, begin: float, end: float) -> None:
        self.correlation += 1
        self.add("cuda_runtime", "cudaLaunchKernel", launched, 2, correlation=self.correlation)
        self.add("kernel", "gemm", begin, end - begin, correlation=self.correlation)

    def copy(self, launched: float, begin: float, end: float, way: str, size: int) -> None:
        self.correlation += 1
        self.add("cuda_runtime", "cudaMemcpyAsync", launched, 2, correlation=self.correlation)
        name, args = f"Memcpy {way}", {"correlation": self.correlation, "bytes": size}
        self.add("gpu_memcpy", name, begin, end - begin, **args)

    def sync(self, begin: float, end: float, name: str = "cudaStreamSynchronize") -> None:
        self.add("cuda_runtime", name, begin, end - begin)

    def parsed(self, steps: int = 1, *, leading: int = 0) -> Trace:
        text = json.dumps({"traceEvents": self.events})
        trace = parse_trace(text, steps=steps, leading=leading)
        assert trace is not None
        return trace


def test_kernels_beside_each_other_count_once() -> None:
    line = TimeLine()
    line.add("cpu_op", "aten::mm", 0, 5)
    line.kernel(1, 10, 60)
    line.kernel(3, 40, 100)
    found = line.parsed()
    assert found.busy_share == pytest.approx(0.9)
    assert found.kernels == 2
    assert found.kernel_seconds == pytest.approx(55e-6)
    assert found.seconds == pytest.approx(100e-6)


def test_a_device_that_has_its_work_in_time_is_idle_for_no_reason_of_the_host() -> None:
    line = TimeLine()
    line.kernel(0, 3, 50)
    line.kernel(4, 53, 103)
    found = line.parsed()
    assert found.idle["other"] == pytest.approx(3 / 103)
    assert found.idle["sync"] == found.idle["data"] == 0


def test_gaps_between_work_that_was_launched_long_before_are_not_the_host_s() -> None:
    line = TimeLine()
    for step in range(9):  # all of them while the device computes the first
        line.kernel(3 * step, 100 * step + 30, 100 * step + 110)
    found = line.parsed(8, leading=1)
    assert found.idle["launch"] == 0
    assert found.idle["other"] == pytest.approx(1 - found.busy_share)


def test_late_launches_are_the_host_s() -> None:
    line = TimeLine()
    for step in range(10):
        line.kernel(20 * step, 20 * step + 5, 20 * step + 10)
    found = line.parsed()
    assert found.idle["launch"] == pytest.approx(1 - found.busy_share)
    assert found.busy_share == pytest.approx(50 / 190)


@pytest.mark.parametrize(("draws", "idle"), [(80, 0.0), (130, 0.3)])
def test_batches_that_are_drawn_while_the_device_computes_cost_nothing(
    draws: float, idle: float
) -> None:
    line, done = TimeLine(), 0.0
    for step in range(9):
        drawn = (draws + 1) * (step + 1)
        line.add("user_annotation", "enumerate(DataLoader)#_SingleProcess", drawn - draws, draws)
        line.kernel(drawn, max(done, drawn + 1), done := max(done, drawn + 1) + 100)
    found = line.parsed(8, leading=1)
    assert (found.steps, found.kernels) == (8, 8)
    assert found.busy_share == pytest.approx(1 / (1 + idle), rel=0.02)
    assert found.idle["data"] == pytest.approx(1 - found.busy_share, abs=0.02)
    first = line.parsed(9)  # waits in the open for the very first
    assert first.idle["data"] > found.idle["data"] + 0.02


def test_the_loader_s_wait_is_told_from_the_launch_after_it() -> None:
    line = TimeLine()
    line.kernel(0, 5, 50)
    line.add("user_annotation", "enumerate(DataLoader)#_SingleProcess.__next__", 20, 100)
    line.kernel(125, 130, 200)
    found = line.parsed()
    assert found.idle["data"] == pytest.approx(70 / 200)
    assert found.idle["launch"] == pytest.approx(15 / 200)


def test_a_wait_for_the_device_costs_what_the_device_then_waits() -> None:
    line = TimeLine()
    line.kernel(0, 5, 100)
    line.sync(10, 102)
    line.kernel(150, 160, 200)
    found = line.parsed()
    assert found.syncs_per_step == 1
    assert found.idle["sync"] == pytest.approx(60 / 200)


def test_clocks_that_are_some_microseconds_apart_hide_no_wait() -> None:
    line = TimeLine()
    line.kernel(0, 5, 100)
    line.sync(10, 97)
    line.kernel(150, 160, 200)
    assert line.parsed().idle["sync"] == pytest.approx(60 / 200)


def test_a_wait_with_work_in_the_queue_costs_nothing() -> None:
    line = TimeLine()
    line.kernel(0, 5, 100)
    line.kernel(3, 101, 200)  # on another stream: it was launched before the wait
    line.sync(10, 102)
    found = line.parsed()
    assert found.syncs_per_step == 1
    assert found.idle["sync"] == 0


def test_the_profiler_s_own_wait_at_the_end_is_not_the_program_s() -> None:
    line = TimeLine()
    line.sync(-10, -5, "cudaDeviceSynchronize")
    line.kernel(0, 5, 100)
    line.sync(20, 105, "cudaDeviceSynchronize")
    assert line.parsed().syncs_per_step == 0


@pytest.mark.parametrize("memory", ["Pageable", "Pinned"])
def test_copies_are_told_by_their_memory_and_what_hides_them(memory: str) -> None:
    line = TimeLine()
    line.copy(0, 10, 50, f"HtoD ({memory} -> Device)", 4000)
    line.kernel(5, 30, 70)
    line.copy(60, 70, 80, "DtoH (Device -> Pinned)", 8)
    line.kernel(60, 80, 100)
    found = line.parsed()
    by_way = {(each.direction, each.memory): each for each in found.copies}
    assert set(by_way) == {("HtoD", memory.lower()), ("DtoH", "pinned")}
    assert by_way["HtoD", memory.lower()].bytes == 4000
    assert by_way["HtoD", memory.lower()].seconds == pytest.approx(40e-6)
    assert found.hidden_share == pytest.approx(0.5)
    assert found.exposed_copy_share == pytest.approx(20 / 100)  # to the device
    assert found.other_copy_share == pytest.approx(10 / 100)


def test_a_wait_for_a_copy_to_the_device_is_the_copy_s() -> None:
    line = TimeLine()
    line.kernel(0, 5, 20)
    line.copy(22, 25, 60, "HtoD (Pageable -> Device)", 1 << 20)
    line.sync(24, 62)
    line.kernel(80, 90, 100)
    found = line.parsed()
    assert found.syncs_per_step == 0
    assert found.idle["copy"] == pytest.approx(30 / 100)
    assert found.idle["sync"] == 0


@pytest.mark.parametrize(
    ("sizes", "between", "cause"),
    [
        ((4000,), False, "sync"),
        ((1 << 20, 4000), False, "copy"),  # a batch and its labels
        ((1 << 20, 4000), True, "sync"),  # a batch, and numbers made in the forward pass
        ((40_000, 40_000), False, "copy"),
    ],
)
def test_a_wait_for_a_few_bytes_is_a_wait_and_no_batch_s(
    sizes: tuple[int, ...], between: bool, cause: str
) -> None:
    line = TimeLine()
    line.kernel(0, 5, 20)
    for at, size in enumerate(sizes):
        if between and at:
            line.kernel(22, 23, 24)
        line.copy(21 + 2 * at, 25, 26, "HtoD (Pageable -> Device)", size)
    line.sync(24, 28)
    line.kernel(80, 90, 100)
    found = line.parsed()
    assert max(found.idle, key=found.idle.__getitem__) == cause
    assert found.syncs_per_step == (cause == "sync")


@pytest.mark.parametrize("synchronised", [True, False])
def test_the_host_waits_in_a_copy_back_to_pageable_memory(synchronised: bool) -> None:
    line = TimeLine()
    for step in range(4):  # `.cpu()`, by the times of a trace in pytorch#99615
        begin = 1000.0 * step
        line.kernel(begin, begin + 5, begin + 700)
        line.copy(begin + 10, begin + 700, begin + 720, "DtoH (Device -> Pageable)", 200_000)
        line.events[-2]["dur"] = 757.8  # returns 47.8 us after the copy's end
        if synchronised:
            line.sync(begin + 770, begin + 772)
    found = line.parsed(4)
    assert found.syncs_per_step == 3 / 4  # the last one's end is behind the trace's
    assert found.idle["sync"] == pytest.approx(1 - found.busy_share - found.other_copy_share, 0.02)
    assert found.idle["launch"] < 0.01


@pytest.mark.parametrize(("memory", "cause"), [("Pageable", "copy"), ("Pinned", "launch")])
def test_the_host_waits_in_a_copy_of_pageable_memory_that_is_not_to_block(
    memory: str, cause: str
) -> None:
    line = TimeLine()
    line.kernel(0, 5, 20)
    line.copy(24, 60, 70, f"HtoD ({memory} -> Device)", 1 << 20)
    line.events[-2]["dur"] = 50 if memory == "Pageable" else 2
    line.kernel(75, 90, 100)
    found = line.parsed()
    assert max(found.idle, key=found.idle.__getitem__) == cause


def test_all_shares_of_a_trace_make_up_its_time() -> None:
    line = TimeLine()
    line.copy(0, 10, 50, "HtoD (Pageable -> Device)", 4000)
    line.sync(2, 52)
    line.kernel(60, 70, 90)
    line.sync(61, 95)
    line.kernel(100, 120, 160)
    found = line.parsed()
    copying = found.exposed_copy_share + found.other_copy_share
    whole = found.busy_share + copying + sum(found.idle.values())
    assert whole == pytest.approx(1)


def test_devices_that_kernels_ran_on_are_counted() -> None:
    line = TimeLine()
    for device in (0, 1, 0):
        line.kernel(10 * device, 10 * device + 5, 10 * device + 9)
        line.events[-1]["args"]["device"] = device
    assert line.parsed().gpus == 2


def test_a_trace_without_kernels_is_none_and_another_file_an_error() -> None:
    assert parse_trace('{"traceEvents": []}', steps=1) is None
    for text in ("[]", "{}", "nothing"):
        with pytest.raises(ValueError, match=r"traceEvents|Expecting"):
            parse_trace(text, steps=1)


def test_the_rate_of_copies_is_the_device_s_and_of_batches_alone() -> None:
    line = TimeLine()
    line.kernel(0, 5, 10)
    line.copy(10, 20, 1020, "HtoD (Pinned -> Device)", 50_000_000)
    line.copy(1030, 1040, 1042, "HtoD (Pinned -> Device)", 8)  # takes as long as 100 kB would
    line.copy(1050, 1060, 1062, "HtoD (Pageable -> Device)", 8)
    rates = {each.memory: each.bytes_per_second for each in line.parsed().copies}
    assert rates == {"pinned": pytest.approx(50e9), "pageable": None}


WAITS = st.tuples(st.integers(0, 90), st.integers(1, 40), st.booleans())


@given(waits=st.lists(WAITS, max_size=6), begin=st.integers(0, 90), length=st.integers(1, 40))
def test_the_wait_before_a_gap_is_found_among_many(
    waits: list[tuple[int, int, bool]], begin: int, length: int
) -> None:
    end = begin + length
    before = [
        (at, for_copy)
        for at, lasts, for_copy in waits
        if at <= begin + _SKEW_MICROSECONDS and begin - _SKEW_MICROSECONDS <= at + lasts < end
    ]
    syncs = [_Sync(begin=at, end=at + lasts, for_copy=for_copy) for at, lasts, for_copy in waits]
    shares = _idle([], [(begin, end)], syncs, length, {})
    causes = {"copy" if for_copy else "sync" for at, for_copy in before if at == min(before)[0]}
    assert {name for name, share in shares.items() if share} <= (causes or {"launch"})
