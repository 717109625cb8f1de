"""One batch trained whole and then in parts, with the weights held still: is it the same step?"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from autotune.workload.live import Live
from autotune.workload.loading import batches, containers
from autotune.workload.parts.optimizer import weights_of

_DROPOUTS = (
    *("dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("alpha_dropout", "feature_alpha_dropout"),
)

_DROPOUT_ARGUMENT = 4  # of scaled_dot_product_attention


class Rehearsal:
    """Feeds every batch twice, whole and in parts, and compares the gradients of both.

    Every third batch goes without its last sample, as an epoch's last batch does.
    """

    def __init__(self) -> None:
        self._batch: Any = None
        self._whole: list[torch.Tensor | None] | None = None
        self._rehearsed = 0
        self.apart: float | None = None  # the furthest, as a share of the whole batch's gradient

    def parts(self, draw: Callable[[], Any], count: int) -> list[tuple[Any, float]]:
        """The next batch whole, or the same batch in `count` parts; each with its share."""
        if self._whole is not None:
            return batches.split(self._batch, count)
        batch = draw()
        if self._rehearsed % 3 == 2:
            batch = batches.without_last(batch)
        self._batch = containers.changed(batch, _cloned)
        return [(batch, 1.0)]

    def take(self, optimizer: torch.optim.Optimizer) -> None:
        """Gradients are complete: in the place of the optimizer's step."""
        gradients = [
            None if weight.grad is None else weight.grad.detach().clone()
            for weight in weights_of(optimizer)
        ]
        if self._whole is None:
            self._whole = gradients
            return
        self.apart = max(self.apart or 0.0, _apart(self._whole, gradients))
        self._whole = None
        self._rehearsed += 1


def _cloned(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def rehearse(live: Live) -> None:
    """From here on, batches are rehearsed and weights no longer change; dropout lets all through,
    since it would drop other values of a part. The run is good for nothing else.
    """
    live.rehearsal = Rehearsal()
    for owner, name in ((torch, "dropout"), *((functional, name) for name in _DROPOUTS)):
        live.patch(owner, name, lambda given, *_, **__: given)
    name = "scaled_dot_product_attention"
    live.patch(functional, name, _without_dropout(getattr(functional, name)))
    for module in live.models.trained:
        for inner in module.modules():
            if isinstance(inner, nn.RNNBase):
                inner.dropout = 0.0


def _without_dropout(attention: Callable[..., Any]) -> Callable[..., Any]:
    def attend(*args: Any, **kwargs: Any) -> Any:
        if len(args) > _DROPOUT_ARGUMENT:
            args = (*args[:_DROPOUT_ARGUMENT], 0.0, *args[_DROPOUT_ARGUMENT + 1 :])
        kwargs.pop("dropout_p", None)
        return attention(*args, **kwargs)

    return attend


def _squared(tensor: torch.Tensor) -> float:
    return float(tensor.double().square().sum())


def _apart(whole: list[torch.Tensor | None], parts: list[torch.Tensor | None]) -> float:
    """The distance of two gradients over the length of the first."""
    distance = length = 0.0
    for mine, theirs in zip(whole, parts, strict=True):
        if mine is not None:
            length += _squared(mine)
        if mine is not None and theirs is not None:
            distance += _squared(mine.double() - theirs.double())
        elif mine is not None or theirs is not None:
            distance = math.inf
    if not math.isfinite(distance) or not math.isfinite(length):
        return math.inf
    if not length:
        return math.inf if distance else 0.0
    return math.sqrt(distance / length)
