"""What came of a training run, and who wants to hear of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from autotune.trainer.trainer import Trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch. `loss` is the mean over its samples; `number` counts from 1.

    `samples` and `seconds` are those of this `fit`: of an epoch that was resumed, its rest.
    """

    number: int
    loss: float
    validation_loss: float | None
    samples: int
    seconds: float

    @property
    def samples_per_second(self) -> float:
        """Samples trained on over the wall time of training, validation not counted."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True, kw_only=True)
class History:
    """What one `fit` did: the loss of every optimizer step and every epoch that ended, in order."""

    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)

    @property
    def epoch_losses(self) -> list[float]:
        """The mean training loss of each epoch."""
        return [epoch.loss for epoch in self.epochs]

    @property
    def validation_losses(self) -> list[float | None]:
        """The mean validation loss after each epoch; None without validation data."""
        return [epoch.validation_loss for epoch in self.epochs]

    @property
    def samples_per_second(self) -> list[float]:
        """The speed of each epoch."""
        return [epoch.samples_per_second for epoch in self.epochs]


class Callback:
    """Hears of a training run; override what is of interest. Both may save the trainer."""

    def on_step(self, trainer: "Trainer", loss: "torch.Tensor") -> None:
        """A step was taken; `loss` is a detached scalar on the device, and reading it waits."""

    def on_epoch(self, trainer: "Trainer", epoch: Epoch) -> None:
        """An epoch has ended, its validation included."""


def tell(callback: object, method: str, trainer: "Trainer", news: object) -> None:
    """Call the callback's `method` where it has it; a plain function hears of the steps."""
    heard = getattr(callback, method, None)
    if heard is None and method == "on_step" and not hasattr(callback, "on_epoch"):
        heard = callback
    if heard is not None:
        heard(trainer, news)
