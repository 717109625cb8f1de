"""Sets of points in time, held against looking at every point."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autotune.profiling.intervals import gaps, intersection, total, union

END = 40
lists = st.lists(st.tuples(st.integers(0, END), st.integers(0, END)), max_size=12)


def points(intervals: object) -> set[int]:
    """The unit steps that the intervals cover."""
    return {point for begin, end in intervals for point in range(int(begin), int(end))}  # type: ignore[attr-defined]


@given(lists)
def test_a_union_covers_what_any_covers_and_its_parts_do_not_touch(some: list) -> None:
    joined = union(some)
    assert points(joined) == points(some)
    assert total(joined) == len(points(some))
    assert all(before[1] < after[0] for before, after in pairwise(joined))


@given(lists, lists)
def test_an_intersection_covers_what_both_cover(some: list, others: list) -> None:
    both = intersection(union(some), union(others))
    assert points(both) == points(some) & points(others)
    assert total(both) == len(points(both))


@given(lists, st.integers(0, END), st.integers(0, END))
def test_gaps_are_what_is_not_covered(some: list, begin: int, end: int) -> None:
    free = gaps(union(some), (begin, end))
    assert points(free) == set(range(begin, end)) - points(some)
    assert total(free) == len(points(free))
