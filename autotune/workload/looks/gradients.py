"""Which weights have no gradient in some steps, and which the program holds on to itself."""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from autotune.workload.looks.watch import Watch
from autotune.workload.parts.optimizer import weights_of


class Losing(Watch):
    """Counts the weights that have no gradient in a step of their optimizer, though they could, and
    the gradients that something else holds, or the memory that they are a part of: freed, that
    would go on with dead ones.

    Gradients are looked at before a step, or after it where a closure computes them within.
    """

    def __init__(self) -> None:
        self._alone = _references_of_one_alone()
        self._steps = 0
        self._lost: set[torch.Tensor] = set()
        self._held: set[torch.Tensor] = set()
        self._hooks: list[RemovableHandle] = []

    def begin(self) -> None:
        self._hooks = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]

    def end(self) -> tuple[int, int] | None:
        """How many of either, None where no optimizer stepped. A loop's variable may hold one."""
        for hook in self._hooks:
            hook.remove()
        held = len(self._held) if len(self._held) > 1 else 0
        return (len(self._lost), held) if self._steps else None

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not _has_closure(args, kwargs):
            self._note(optimizer)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if _has_closure(args, kwargs):
            self._note(optimizer)

    def _note(self, optimizer: torch.optim.Optimizer) -> None:
        self._steps += 1
        for weight in weights_of(optimizer):
            if weight.grad is None:
                self._lost.update({weight} if weight.requires_grad else ())
            elif _references(weight) > self._alone:
                self._held.add(weight)


def _references(weight: torch.Tensor) -> int:
    """How many there are to the gradient of `weight`, or to what that is a view of."""
    assert weight.grad is not None
    of_all = 0 if weight.grad._base is None else sys.getrefcount(weight.grad._base)
    return max(of_all, sys.getrefcount(weight.grad))


def _references_of_one_alone() -> int:
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.zeros(1)
    return _references(weight)


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(callable(each) for each in (*args[1:], *kwargs.values()))
