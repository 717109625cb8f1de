"""What a Trainer is given, looked at before anything is trained."""

from collections.abc import Sized
from typing import Any

import torch
from torch import nn
from torch.utils.data import IterableDataset

from autotune.errors import UsageError


def check_arguments(
    model: Any,
    dataset: Any,
    training_step: Any,
    optimizer: Any,
    batch_size: Any,
    *,
    clip_norm: Any = None,
    callbacks: Any = (),
    **_: Any,
) -> None:
    """See that a training can be made of these arguments of `Trainer`'s.

    Raises:
        UsageError: one of them cannot be taken.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"model is {_kind(model)}, not a torch.nn.Module")
    _check_dataset(dataset)
    if training_step is not None and not callable(training_step):
        advice = "give a function of (model, batch) that returns the mean loss"
        raise UsageError(f"training_step is {_kind(training_step)}, not a function", advice)
    _check_optimizer(model, optimizer)
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise UsageError(f"batch_size is {batch_size!r}", "choose a whole number, at least 1")
    if clip_norm is not None and not clip_norm > 0:
        advice = "choose the largest norm that gradients may have, or None"
        raise UsageError(f"clip_norm is {clip_norm!r}", advice)
    for callback in callbacks:
        heard = any(hasattr(callback, name) for name in ("on_step", "on_epoch"))
        if not (heard or callable(callback)):
            raise UsageError(
                f"one of callbacks is {_kind(callback)}, which has neither on_step nor on_epoch",
                "give an object with one of these methods, or a function of (trainer, loss)",
            )


def check_epochs(epochs: Any) -> None:
    """See that so many epochs can be trained.

    Raises:
        UsageError: they cannot.
    """
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
        raise UsageError(f"epochs is {epochs!r}", "choose a whole number, at least 0")


def device_of(name: str | torch.device | None) -> torch.device:
    """The device of that name, by default the GPU where there is one.

    Raises:
        UsageError: torch knows none of that name.
    """
    try:
        return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"device is {name!r}: {reason}", 'choose "cpu" or "cuda"') from None


def _check_dataset(dataset: Any) -> None:
    if isinstance(dataset, IterableDataset):
        return
    if not isinstance(dataset, Sized) or not hasattr(dataset, "__getitem__"):
        raise UsageError(
            f"the dataset is {_kind(dataset)}, which has no length or no items",
            "give it __len__ and __getitem__, or derive it from torch.utils.data.IterableDataset",
        )
    if not len(dataset):
        raise UsageError("the dataset is empty", "give one with at least one sample")


def _check_optimizer(model: nn.Module, optimizer: Any) -> None:
    if optimizer is None:
        if not any(weight.requires_grad for weight in model.parameters()):
            advice = "set requires_grad on those that are to be trained"
            raise UsageError("the model has no weights that take gradients", advice)
        return
    if isinstance(optimizer, torch.optim.Optimizer):
        own = {id(weight) for weight in model.parameters()}
        if not any(id(weight) in own for of in optimizer.param_groups for weight in of["params"]):
            advice = "build it on the parameters of the model that is given"
            raise UsageError("the optimizer has none of the model's weights", advice)
    elif isinstance(optimizer, type) or not callable(optimizer):
        raise UsageError(
            f"optimizer is {_kind(optimizer)}",
            "give one that is built, or a function that builds it: "
            "lambda model: torch.optim.AdamW(model.parameters())",
        )


def _kind(given: Any) -> str:
    if given is None:
        return "None"
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
