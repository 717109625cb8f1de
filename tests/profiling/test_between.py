"""Looks at forward passes beside a time line of operations that was made by hand."""

import json
import zlib

import pytest

from autotune.profiling.between import own_lines
from autotune.workload.found import INSIDE, MARK, Between, Look

MARKED = 100.0  # seconds, by the host's clock
MARKED_AT = 5e6  # microseconds, by the trace's
# In microseconds from the mark: 10 ms of Python between two products, and 20 us before a third.
OPERATIONS = ((0, 1_000), (11_000, 12_000), (12_020, 15_000))


def trace(*, category: str = "cpu_op") -> bytes:
    marks = [{"name": MARK, "ts": MARKED_AT - before, "dur": 3} for before in (900, 0)]
    operations = [
        {"name": "aten::mm", "cat": category, "ts": MARKED_AT + begin, "dur": end - begin}
        for begin, end in OPERATIONS
    ]
    return zlib.compress(
        json.dumps({"traceEvents": [{"name": "pid"}, *marks, *operations]}).encode()
    )


def look(microseconds: float, line: int = 7, function: str = "match") -> Look:
    moment = MARKED + microseconds * 1e-6
    return Look(moment=moment, path="/project/model.py", line=line, function=function)


def found(*inside: Look, category: str = "cpu_op") -> Between:
    return Between(trace=trace(category=category), marked=MARKED, looks=10, inside=inside)


def test_looks_far_from_operations_are_the_program_s_own_and_others_are_none() -> None:
    in_products = [look(at, 3, "forward") for at in (500, 11_500, 12_010, 14_000)]
    (line,) = own_lines(found(look(2_000), look(4_000, 8), look(6_000, 8), *in_products))
    assert (line.phase, line.function, line.line) == (INSIDE, "match", 8)
    assert line.share == pytest.approx(0.3)
    assert line.lines == ((8, pytest.approx(0.2)), (7, pytest.approx(0.1)))


def test_those_that_take_most_come_first() -> None:
    lines = own_lines(found(look(2_000, function="a"), look(3_000), look(4_000)))
    assert [each.function for each in lines] == ["match", "a"]


def test_ranges_that_the_program_names_are_no_operations() -> None:
    (line,) = own_lines(found(look(500), look(11_500), category="user_annotation"))
    assert line.share == pytest.approx(0.2)


def test_after_the_last_operation_there_is_python_too() -> None:
    (line,) = own_lines(found(look(15_400), look(15_900)))
    assert line.share == pytest.approx(0.2)


def test_without_looks_there_is_nothing() -> None:
    assert own_lines(found()) == ()
