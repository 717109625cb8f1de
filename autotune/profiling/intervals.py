"""Sets of points in time, as sorted intervals that do not touch."""

from collections.abc import Iterable, Sequence

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """What is in any of `intervals`; empty ones are nowhere."""
    joined: list[Interval] = []
    for begin, end in sorted(each for each in intervals if each[1] > each[0]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def intersection(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What is in both of two unions."""
    found: list[Interval] = []
    index = other = 0
    while index < len(some) and other < len(others):
        begin = max(some[index][0], others[other][0])
        end = min(some[index][1], others[other][1])
        if begin < end:
            found.append((begin, end))
        if some[index][1] < others[other][1]:
            index += 1
        else:
            other += 1
    return found


def gaps(covered: Sequence[Interval], within: Interval) -> list[Interval]:
    """What of `within` is in none of a union."""
    found: list[Interval] = []
    free_from = within[0]
    for begin, end in covered:
        if min(begin, within[1]) > free_from:
            found.append((free_from, min(begin, within[1])))
        free_from = max(free_from, end)
    if free_from < within[1]:
        found.append((free_from, within[1]))
    return found


def total(intervals: Iterable[Interval]) -> float:
    """The length of a union."""
    return sum(end - begin for begin, end in intervals)
