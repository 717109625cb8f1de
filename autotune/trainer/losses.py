"""The losses of a run: kept on the device until they are read, because reading one waits for it."""

import math
from dataclasses import dataclass

import torch

from autotune.errors import ProgramError

# Steps between two looks at the losses on a GPU; on a CPU looking costs nothing.
READ_EVERY = 50


@dataclass(slots=True, kw_only=True)
class Position:
    """How far a training is: whole epochs, and of the one begun its steps and its losses.

    `loss_sum` is over `samples`, those of the steps whose loss was read.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    samples: int = 0

    def begin_next_epoch(self) -> None:
        """The epoch is over."""
        self.epoch, self.step, self.loss_sum, self.samples = self.epoch + 1, 0, 0.0, 0


class Losses:
    """Collects the loss of each step; when it is left, all of them have been read.

    Args:
        read: where the losses go when they are read, in the order of the steps.
        position: counts what was read.
        device: what they are computed on.
    """

    def __init__(self, read: list[float], position: Position, device: torch.device) -> None:
        self._read = read
        self._position = position
        self._every = 1 if device.type == "cpu" else READ_EVERY
        self._pending: list[tuple[torch.Tensor, int]] = []

    def __enter__(self) -> "Losses":
        return self

    def __exit__(self, *error: object) -> None:
        self.read()

    def add(self, loss: torch.Tensor, samples: int) -> None:
        """Take the detached loss of the step at which the position is."""
        self._pending.append((loss, samples))

    def check(self) -> None:
        """Read what there is, if it is time to.

        Raises:
            ProgramError: a loss is not a number, or infinite.
        """
        if len(self._pending) >= self._every:
            self.read()

    def read(self) -> None:
        """Read all losses; raises as `check`."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        values = torch.stack([loss.float() for loss, _ in pending]).tolist()
        first = self._position.step - len(pending) + 1
        for step, (value, (_, samples)) in enumerate(zip(values, pending, strict=True), first):
            if not math.isfinite(value):
                raise ProgramError(
                    f"the loss is {value} at step {step} of epoch {self._position.epoch + 1}",
                    "a lower learning rate, clip_norm or full precision (fp32) may prevent it",
                )
            self._read.append(value)
            self._position.loss_sum += value * samples
            self._position.samples += samples

    @property
    def last(self) -> float:
        """The loss read last."""
        return self._read[-1] if self._read else math.nan
