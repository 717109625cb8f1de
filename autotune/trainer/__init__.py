"""Training a model with settings that were found for it."""

from autotune.trainer.history import Callback, Epoch, History
from autotune.trainer.trainer import Trainer

__all__ = ["Callback", "Epoch", "History", "Trainer"]
