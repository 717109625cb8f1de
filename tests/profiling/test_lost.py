"""Kernels that the profiler has lost, in traces that are made by hand in Kineto's form."""

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.profiling.lost import IncompleteTrace
from autotune.profiling.trace import Trace, parse_trace
from tests.profiling.test_trace import TimeLine

FOLDER = Path(__file__).parent / "traces"
STEPS = 6


def parsed(name: str) -> Trace:
    trace = parse_trace((FOLDER / f"{name}.json").read_bytes(), steps=STEPS)
    assert trace is not None
    return trace


def a_step(trace: Trace, share: float) -> float:
    return share * trace.seconds / trace.steps


def test_steps_whose_kernels_were_lost_at_the_beginning_are_left_out() -> None:
    whole, found = parsed("whole"), parsed("lost_at_the_beginning")
    assert (whole.steps, found.steps) == (6, 4)
    assert found.kernels / found.steps == whole.kernels / whole.steps == 5
    assert a_step(found, found.busy_share) == pytest.approx(a_step(whole, whole.busy_share))
    assert a_step(found, found.busy_share) == pytest.approx(650e-6)
    assert found.seconds / found.steps == pytest.approx(1e-3, rel=0.01)
    assert found.idle == pytest.approx(whole.idle, abs=0.03)  # its end lacks a wait
    assert [each.count for each in found.copies if each.direction == "HtoD"] == [found.steps]
    assert found.syncs_per_step == 1.0


def test_a_trace_with_kernels_lost_in_the_middle_is_none() -> None:
    with pytest.raises(IncompleteTrace, match="lost 8 of 30 kernels"):
        parsed("lost_in_the_middle")


def lines(*, lost: tuple[int, ...], kernels: int = 40) -> TimeLine:
    line = TimeLine()
    for at in range(kernels):
        line.kernel(20 * at, 20 * at + 5, 20 * at + 15)
        if at in lost:
            line.events.pop()
    return line


@pytest.mark.parametrize(("lost", "left"), [(0, 4), (1, 3), (10, 3), (11, 2), (20, 2), (21, None)])
def test_so_many_whole_steps_are_left_out_but_no_more_than_half(
    lost: int, left: int | None
) -> None:
    line = lines(lost=tuple(range(lost)))
    if left is None:
        with pytest.raises(IncompleteTrace):
            line.parsed(4)
        return
    found = line.parsed(4)
    assert found.steps == left
    assert found.kernels == 10 * left
    assert a_step(found, found.busy_share) == pytest.approx(100e-6)


def test_all_kernels_may_be_lost() -> None:
    with pytest.raises(IncompleteTrace, match="lost 40 of 40"):
        lines(lost=tuple(range(40))).parsed(4)


def test_a_kernel_in_a_hundred_may_lack() -> None:
    assert lines(lost=(150,), kernels=200).parsed(4).steps == 4


def test_the_last_steps_may_be_the_ones_that_lack_theirs() -> None:
    with pytest.raises(IncompleteTrace):
        lines(lost=tuple(range(30, 40))).parsed(4)


@pytest.mark.parametrize(
    "name", ["cudaMemsetAsync", "cudaLaunchHostFunc", "cudaGraphInstantiate_v12000"]
)
def test_calls_that_make_no_kernel_lack_none(name: str) -> None:
    line = lines(lost=())
    for at in range(40):
        line.add("cuda_runtime", name, 20 * at + 3, 1, correlation=1000 + at)
    assert line.parsed(4).steps == 4


@pytest.mark.parametrize("captured", [False, True])
def test_what_a_graph_captures_runs_later(captured: bool) -> None:
    line = lines(lost=())
    calls: list[Any] = [("cudaLaunchKernel", 2000 + at) for at in range(20)]
    if captured:
        begin, end = "cudaStreamBeginCapture_v10000", "cudaStreamEndCapture_v10000"
        calls = [(begin, 1998), *calls, (end, 1999)]
    for at, (name, which) in enumerate(calls):
        line.add("cuda_runtime", name, 700 + at, 0.5, correlation=which)
    text = json.dumps({"traceEvents": line.events})
    if captured:
        assert parse_trace(text, steps=4) is not None
    else:
        with pytest.raises(IncompleteTrace):
            parse_trace(text, steps=4)
