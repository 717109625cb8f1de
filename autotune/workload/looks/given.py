"""What loaders gave the program, batch by batch, where that is noted (`randomness/alike.py`)."""

from autotune.workload.live import Live


class Given:
    """What loaders gave the program since it began, as digests; a `Watch`."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def begin(self) -> None:
        """See `Watch`.

        Raises:
            RuntimeError: nobody has noted it.
        """
        if self._live.given is None:
            raise RuntimeError("what loaders gave was not noted")

    def step(self) -> None:
        """See `Watch`."""

    def end(self) -> tuple[tuple[int, int], ...]:
        """See `Watch`; of each batch, and of the samples that were chosen for it."""
        return tuple(self._live.given or ())
