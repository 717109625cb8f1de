"""What is said of the largest batch that a program's data gives."""

from autotune.profiling.profile import LargestBatch, Memory

_GIB = 1 << 30
# So much larger than the first in its numbers, a batch is said to be.
_LARGER = 1.05


def said_of_largest(memory: Memory) -> str:
    """Which batch it is, of how many that were looked at, and the peak of a step on it; "" where
    all are of one size, or nobody had reason to look.
    """
    largest = memory.largest
    if largest is None:
        return ""
    if not largest.looked_at:
        return f"Batches come in several shapes; the largest is not known: {largest.reason}."
    growth = largest.elements / max(1, largest.usual_elements)
    many = f"{growth:.2g}" if growth < 10 else f"{growth:,.0f}"
    larger = f", {many} times the numbers of the first" if growth >= _LARGER else ""
    shapes = " and ".join(largest.shapes)
    return (
        f"The largest of {_looked_at(largest)} has {shapes or f'{largest.elements} letters'}"
        f"{larger}; {_taken(memory, largest)}."
    )


def _looked_at(largest: LargestBatch) -> str:
    seen = largest.looked_at
    if largest.is_whole:
        return f"the {seen} batches of an epoch"
    if largest.of is None:
        return f"{seen} batches that were looked at, of nobody knows how many,"
    return f"{seen} batches that were looked at, of the {largest.of} of an epoch,"


def _taken(memory: Memory, largest: LargestBatch) -> str:
    most = memory.most_bytes
    if largest.fits is False:
        about = f": it needs about {most / _GIB:.3g} GiB" if most else ""
        return f"a step on it did not fit into memory{about}"
    if most is None or memory.peak_bytes is None:
        return "what a step on it takes was not measured"
    timed = f"{memory.peak_bytes / _GIB:.3g} GiB of those that were timed"
    if largest.fits:
        if most == memory.peak_bytes:
            return f"a step on it takes no more than the {timed}"
        return f"a step on it takes {most / _GIB:.3g} GiB at its peak, beside {timed}"
    return (
        f"a step on it was not tried ({largest.reason}) and is predicted to take "
        f"{most / _GIB:.3g} GiB at its peak, beside {timed}"
    )
