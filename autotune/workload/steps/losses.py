"""Losses of steps, their learning rates, and how often a GradScaler found an overflow."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from autotune.workload.system.idle import is_capturing


class Losses:
    """Keeps them where they are until they are taken: reading a number waits for its device.
    `rate` says what the learning rate is now.
    """

    def __init__(self, rate: Callable[[], float]) -> None:
        self._rate = rate
        self._losses: list[torch.Tensor | float] = []
        self._rates: list[float] = []
        self._loss: torch.Tensor | float | None = None
        self._overflows: list[tuple[torch.Tensor, ...]] = []

    def add(self, loss: object, weight: float) -> None:
        """Count `loss` towards the current step's, the mean of one with several numbers."""
        if not isinstance(loss, torch.Tensor) or (not loss.is_cpu and is_capturing()):
            return
        if loss.numel() != 1:
            loss = loss.float().mean()
        # A copy: what a CUDA graph gives is overwritten by its next replay.
        part = loss.item() if loss.is_cpu else loss.detach().to(torch.float32, copy=True)
        if weight != 1.0:
            part *= weight
        self._loss = part if self._loss is None else self._loss + part

    def add_overflows(self, found: Iterable[torch.Tensor]) -> None:
        """A GradScaler had the optimizer step, or not: where any of `found`, one number for each
        device, is not 0, there was an overflow.
        """
        self._overflows.append(tuple(each.clone() for each in found))  # `update()` adds them up

    def end_step(self) -> None:
        """What follows is another step's."""
        if self._loss is not None:
            self._losses.append(self._loss)
            self._rates.append(self._rate())
            self._loss = None

    def clear(self) -> None:
        """What was noted so far is of another training."""
        self._loss, self._losses, self._rates, self._overflows = None, [], [], []

    def take(self) -> dict[str, Any]:
        """What a window says of the steps since this was last asked."""
        losses = tuple(map(float, self._losses))
        skipped = sum(any(map(float, found)) for found in self._overflows)
        taken = {"losses": losses, "rates": tuple(self._rates), "skipped_steps": skipped}
        self._losses, self._rates, self._overflows = [], [], []
        return taken
