"""A step's memory as a line in the size of its micro-batch, and the largest size that fits.

A line holds only in part: small sizes hide below what is taken once, libraries change their
algorithms, allocators round. So it only says where to look next; what counts is what was tried.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune.profiling.profile import Memory, Profile

# Peak over capacity from which memory counts as scarce (TraceML; torch-tb-profiler says 90 %).
SCARCE_MEMORY = 0.92
MOST_PROBES = 10
MOST_OUT_OF_MEMORY = 3
# What is left free of the device: fragments, and batches that come out a little larger.
MARGIN = 0.01
# A size so close to one that is too large, or to the line's end, as a share of it, is close enough:
# with the margin it stays within 5 % of the true limit.
TOLERANCE = 0.015
# Where one size takes hardly more than a smaller one, by less than this share of the device, the
# line is not in its linear part yet: what grows with the batch lies below what is taken once.
FLAT = 0.01
# So much larger is the next size then, and so much smaller after a first one that does not fit.
STRIDE, RETREAT = 8, 4


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A step of that size did not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """Peak bytes of a step: `fixed_bytes`, and `bytes_per_sample` for each sample."""

    fixed_bytes: float
    bytes_per_sample: float

    def peak_bytes(self, size: int) -> float:
        """The peak at a micro-batch of `size` samples."""
        return self.fixed_bytes + self.bytes_per_sample * size

    def largest(self, limit_bytes: float) -> float:
        """The size, in parts of a sample, at which the peak is `limit_bytes`."""
        if self.bytes_per_sample <= 0:
            return float("inf")
        return (limit_bytes - self.fixed_bytes) / self.bytes_per_sample


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The largest micro-batch that was seen to fit, 0 where none did.

    `tried` has the peak bytes of each size, None where it was out of memory; `line` goes through
    the two largest of them, None where fewer than two fitted.
    """

    size: int
    tried: Mapping[int, int | None]
    line: MemoryLine | None

    @property
    def out_of_memories(self) -> int:
        """Sizes that did not fit."""
        return sum(peak is None for peak in self.tried.values())


def line_of(memory: Memory, size: float) -> MemoryLine | None:
    """The line of one measured step of `size` samples: what lies between forward and backward is
    theirs, the rest is taken once. None where either was not measured.

    Of batches of several sizes it is that of samples as large as those of the largest batch.
    """
    peak, activations = memory.peak_bytes, memory.activation_bytes
    if peak is None or not activations or size <= 0:
        return None
    activations = min(activations, peak)
    most = memory.most_bytes or peak
    fixed = peak - activations
    if memory.largest is not None and memory.largest.samples and most > peak:
        each = (most - fixed) / memory.largest.samples
        return MemoryLine(fixed_bytes=fixed, bytes_per_sample=each)
    return MemoryLine(fixed_bytes=fixed, bytes_per_sample=activations / size)


def line_beyond(profile: Profile) -> MemoryLine | None:
    """As `line_of`, for larger batches than the program's own: what libraries work in grows with
    them as well. None where batches differ in size, and what the largest takes is not known.
    """
    memory, loader = profile.memory, profile.seen.loader
    largest = memory.largest
    known = largest.is_whole and largest.fits if largest else profile.seen.shapes == 1
    size = loader.batch_size if loader and known else None
    line = line_of(memory, size or 0)
    if not size or line is None:
        return None
    workspace = memory.workspace_bytes or 0
    return MemoryLine(
        fixed_bytes=line.fixed_bytes - workspace,
        bytes_per_sample=line.bytes_per_sample + workspace / size,
    )


def fit_line(points: Sequence[tuple[int, int]]) -> MemoryLine | None:
    """The line through the two largest of `points`, (size, peak bytes); None where there is one."""
    largest = sorted(points)[-2:]
    if len(largest) < 2:
        return None
    (size, peak), (larger, higher) = largest
    slope = (higher - peak) / (larger - size)
    return MemoryLine(fixed_bytes=peak - slope * size, bytes_per_sample=slope)


def find_limit(
    probe: Callable[[int], int | OutOfMemory], *, start: int, most: int, capacity_bytes: int
) -> MemoryLimit:
    """Look for the largest micro-batch that fits.

    Args:
        probe: runs steps at a size, the optimizer's state and a validation included where the
            program has them, and gives the peak bytes; each costs a process.
        start: size to begin with, in samples; one that is likely to fit.
        most: no larger one is of use.
        capacity_bytes: of the device, as far as this process may have it.
    """
    limit = (1 - MARGIN) * capacity_bytes
    tried: dict[int, int | None] = {}
    size: int | None = min(start, most)
    while size is not None:
        found = probe(size)
        tried[size] = None if isinstance(found, OutOfMemory) else found
        size = _next(tried, most, limit)
    fitting = _fitting(tried, limit)
    return MemoryLimit(size=max(fitting, default=0), tried=tried, line=_line(tried))


def _next(tried: Mapping[int, int | None], most: int, limit: float) -> int | None:
    """The size to try next; None where that is not worth it."""
    fitting = _fitting(tried, limit)
    low = max(fitting, default=0)
    high = min((size for size in tried if size > low and size not in fitting), default=most + 1)
    crashes = sum(peak is None for peak in tried.values())
    close = high - low <= max(1, TOLERANCE * high)
    if close or len(tried) >= MOST_PROBES or crashes >= MOST_OUT_OF_MEMORY:
        return None
    if not low:
        return max(1, high // RETREAT)
    line = _line(tried)
    rising = line is not None and line.bytes_per_sample * low > FLAT * limit
    end = line.largest(limit) if line is not None and rising else 0.0
    if low <= end <= low * (1 + TOLERANCE) or end >= most == low:
        return None
    # What is taken once may be nothing: then a sample takes no more than its share of the peak.
    safe = low * limit / (tried[low] or 1)
    aimed = max(safe, end) if line is None or rising else max(safe, STRIDE * low)
    near = (1 - TOLERANCE) * high
    if low < near < aimed < high <= most:
        aimed = near  # as good, and not on the same rounded block as what did not fit
    if aimed >= high and safe < high <= most:
        aimed = safe if safe > low * (1 + TOLERANCE) else math.sqrt(low * high)
    if aimed >= high:
        aimed = math.sqrt(low * high) if high <= most else most
    return min(max(int(aimed), low + 1), high - 1)


def _fitting(tried: Mapping[int, int | None], limit: float) -> list[int]:
    return [size for size, peak in tried.items() if peak is not None and peak <= limit]


def _line(tried: Mapping[int, int | None]) -> MemoryLine | None:
    return fit_line([(size, peak) for size, peak in tried.items() if peak is not None])
