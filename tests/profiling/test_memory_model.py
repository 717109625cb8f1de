"""The largest micro-batch is found in few probes, on allocators that are no straight line."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autotune.profiling.memory_model import (
    MOST_OUT_OF_MEMORY,
    MOST_PROBES,
    MemoryLimit,
    OutOfMemory,
    find_limit,
    fit_line,
)

MIB, GIB = 1 << 20, 1 << 30
CAPACITY = 16 * GIB
MOST = 1 << 20


def straight(size: int) -> float:
    """2 GiB of weights and optimizer state, and 20 MiB for each sample."""
    return 2 * GIB + 20 * MIB * size


def rounded(size: int) -> float:
    """Blocks of 2 MiB for the small, of 20 MiB for each of eight layers."""
    layers = 8 * math.ceil(2.3 * MIB * size / (20 * MIB)) * 20 * MIB
    return 2 * GIB + layers + math.ceil(0.01 * MIB * size / (2 * MIB)) * 2 * MIB


def jumping(size: int) -> float:
    """cuDNN takes another algorithm, with a workspace of its own, from 200 samples on."""
    return straight(size) + (1.5 * GIB if size >= 200 else 0)


def jumping_down(size: int) -> float:
    """And back to one without."""
    return 2 * GIB + 24 * MIB * size + (1 * GIB if size < 180 else 0)


def validating(size: int) -> float:
    """A validation of a fixed batch takes more than small training batches do."""
    return max(7 * GIB, straight(size))


def floored(size: int) -> float:
    """Small sizes hide below a workspace that is taken once."""
    return max(4.2 * GIB, 1.1 * GIB + 55 * MIB * size)


SHAPES = (straight, rounded, jumping, jumping_down, validating, floored)


def search(shape: Callable[[int], float], start: int = 8, capacity: int = CAPACITY) -> MemoryLimit:
    def probe(size: int) -> int | OutOfMemory:
        peak = shape(size)
        return OutOfMemory() if peak > capacity else int(peak)

    return find_limit(probe, start=start, most=MOST, capacity_bytes=capacity)


def true_limit(shape: Callable[[int], float], capacity: int = CAPACITY) -> int:
    low, high = 0, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if shape(middle) <= capacity else (low, middle)
    return low


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("start", [1, 8, 32, 128, 2000])
def test_the_limit_is_found_within_five_percent_in_few_probes(
    shape: Callable[[int], float], start: int
) -> None:
    found = search(shape, start)
    assert 0.95 * true_limit(shape) <= found.size <= true_limit(shape)
    assert len(found.tried) <= MOST_PROBES
    assert found.out_of_memories <= MOST_OUT_OF_MEMORY


@example(fixed=4.90625, each=1.0, start=1)
@given(fixed=st.floats(0.2, 8), each=st.floats(1, 900), start=st.integers(1, 64))
def test_whatever_a_step_takes_the_limit_is_found(fixed: float, each: float, start: int) -> None:
    def shape(size: int) -> float:
        return fixed * GIB + math.ceil(each * size / 20) * 20 * MIB

    limit = true_limit(shape)
    found = search(shape, start)
    assert found.size <= limit
    assert found.size >= min(0.95 * limit, limit - 1)
    assert len(found.tried) <= MOST_PROBES
    assert found.out_of_memories <= MOST_OUT_OF_MEMORY


def test_what_was_seen_to_fit_is_answered_not_what_is_predicted() -> None:
    found = search(jumping)
    assert found.tried[found.size] is not None
    assert all(size > found.size for size, peak in found.tried.items() if peak is None)


def test_nothing_fits() -> None:
    found = search(lambda size: 17.0 * GIB)
    assert found.size == 0
    assert found.out_of_memories <= MOST_OUT_OF_MEMORY


def test_no_larger_size_than_is_of_use_is_tried() -> None:
    found = find_limit(lambda size: size * MIB, start=8, most=100, capacity_bytes=CAPACITY)
    assert found.size == 100
    assert max(found.tried) == 100


def test_a_line_goes_through_the_largest_sizes() -> None:
    line = fit_line([(1, 500), (10, 500), (20, 700), (40, 1100), (80, 1900)])
    assert line is not None
    assert (line.fixed_bytes, line.bytes_per_sample) == pytest.approx((300, 20))
    assert line.largest(2300) == pytest.approx(100)
    assert fit_line([(8, 100)]) is None
    flat = fit_line([(8, 100), (16, 100)])
    assert flat is not None and flat.largest(200) == math.inf
