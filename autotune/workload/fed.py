"""How many samples a step trains on for which nothing was drawn."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Fed:
    """What the steps of a run were fed.

    Attributes:
        kept: some step trained on what was drawn before: with another batch, or for an earlier
            epoch, and kept (a list of batches, `itertools.cycle`).
        miscounted: samples that the first step, which is of no window, was counted too many for.
    """

    kept: bool = False
    miscounted: int = 0
    _passes: int = 0  # backward passes of this step that had a batch drawn for them
    _usually: int = 1
    _waiting: int = 0  # batches that were drawn with another, and counted then

    def draw(self, batches: int) -> None:
        """So many were drawn for a backward pass."""
        self._passes += bool(batches)
        self._waiting += max(0, batches - 1)

    def end_step(self) -> None:
        """A step is complete."""
        self._usually, self._passes = self._passes or self._usually, 0

    def again(self, samples: int) -> int:
        """What to count for a step that draws nothing, each forward of which is given `samples`."""
        self.kept = True
        if self._waiting:
            self._waiting -= 1
            return 0
        return self._usually * samples
