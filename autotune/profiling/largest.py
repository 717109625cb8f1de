"""The largest batch that a program's data gives, and the memory that training on it takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest batch of an epoch, where batches were seen to differ in size.

    Attributes:
        looked_at: batches of an epoch that were looked at.
        of: that it has; None where nobody knows.
        shapes: of the tensors of the largest.
        samples: in it.
        elements: numbers in it.
        usual_elements: in the first that was drawn.
        tried: elements and peak bytes of the batches that were trained on, the largest not always
            among them; as long as nothing is freed in between, by an allocator of the device's.
        fits: whether training on it was seen to fit; None where that was not tried.
        reason: why it was not tried, or not looked for.
    """

    looked_at: int = 0
    of: int | None = None
    shapes: tuple[str, ...] = ()
    samples: int = 0
    elements: int = 0
    usual_elements: int = 0
    tried: tuple[tuple[int, int], ...] = ()
    fits: bool | None = None
    reason: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all batches of an epoch were looked at."""
        return self.of is not None and self.looked_at >= self.of

    def peak_bytes(self, fixed_bytes: int) -> int | None:
        """The peak of a step on it: as it was measured or, where it was not or there was no memory
        for it, by a line through what was, or through `fixed_bytes`, which a step takes whatever
        its batch. Of what grows faster (attention) the line is the least.
        """
        peaks = dict(self.tried)
        if self.elements in peaks and self.fits:
            return max(peaks.values())
        if not peaks or not self.elements:
            return None
        (few, low), (many, high) = sorted({0: fixed_bytes, **peaks}.items())[-2:]
        slope = max(0.0, (high - low) / (many - few))
        return int(max(peaks.values()) + slope * max(0, self.elements - many))
