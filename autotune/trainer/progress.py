"""One line on the terminal that says how far the training is."""

import sys
import time

from autotune.trainer.losses import Position

REDRAW_SECONDS = 0.2  # five times a second: as fast as anybody reads


class ProgressLine:
    """Rewrites one line of stderr; `shown` None shows it on a terminal only."""

    def __init__(self, shown: bool | None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._drawn = 0.0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *error: object) -> None:
        self._write("")

    def due(self) -> bool:
        """Whether it is time to draw again."""
        return self._shown and time.monotonic() - self._drawn >= REDRAW_SECONDS

    def draw(self, position: Position, *, steps: int | None, loss: float, speed: float) -> None:
        """Draw the position, out of `steps` an epoch, a loss, and `speed` in samples per second."""
        self._drawn = time.monotonic()
        of = f"/{steps}" if steps is not None else ""
        at = f"epoch {position.epoch + 1}  step {position.step}{of}"
        self._write(f"{at}  loss {loss:.4f}  {speed:.1f} samples/s")

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
