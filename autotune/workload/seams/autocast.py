"""Autocast from a model's call to the backward pass of what it gave."""

from typing import Any

import torch
from torch import nn

from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.setup import Precision


def follow(live: Live, module: nn.Module, args: Any, kwargs: Any) -> None:
    """Open autocast for a model that trains, and close it for one that evaluates a batch, which is
    not what another model gave.
    """
    if live.setup.precision is None:
        return
    if module.training:
        if live.open_autocast is None:
            _open(live, live.setup.precision)
    elif module in live.models.trained:
        given = batches.first_tensor(args, kwargs)
        if given is None or not given.requires_grad:
            close(live)


def _open(live: Live, precision: Precision) -> None:
    """Autocast from here to the backward pass, so that the loss is computed under it as well.

    It keeps the weights that it has cast, so it must end before they change, with or without one.
    """
    live.open_autocast = torch.autocast(live.device().type, dtype=getattr(torch, precision.dtype))
    live.open_autocast.__enter__()


def note(live: Live) -> None:
    """Remember in which format the program has its model called by itself."""
    kind = live.device().type
    live.autocast = (
        str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
        if torch.is_autocast_enabled(kind)
        else ""
    )


def close(live: Live) -> None:
    """Leave the autocast that a training forward opened."""
    if live.open_autocast is not None:
        live.open_autocast.__exit__(None, None, None)
        live.open_autocast = None
