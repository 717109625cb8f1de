"""A step's memory as a line in the size of its micro-batch.

A line holds only in part: small sizes hide below what is taken once, libraries change their
algorithms, allocators round. So it only says where to look; what counts is what was tried.
"""

from dataclasses import dataclass

from autotune.profiling.profile import Memory, Profile

# Peak over capacity from which memory counts as scarce (TraceML; torch-tb-profiler says 90 %).
SCARCE_MEMORY = 0.92


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """Peak bytes of a step: `fixed_bytes`, and `bytes_per_sample` for each sample."""

    fixed_bytes: float
    bytes_per_sample: float

    def largest(self, limit_bytes: float) -> float:
        """The size, in parts of a sample, at which the peak is `limit_bytes`."""
        return (limit_bytes - self.fixed_bytes) / self.bytes_per_sample


def line_of(memory: Memory, size: float) -> MemoryLine | None:
    """The line of one measured step of `size` samples: what lies between forward and backward is
    theirs, the rest is taken once. None where either was not measured.

    Of batches of several sizes it is that of samples as large as those of the largest batch.
    """
    peak, activations = memory.peak_bytes, memory.activation_bytes
    if not peak or not activations or size <= 0:
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
