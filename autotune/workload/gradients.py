"""Which weights have a gradient in some steps and none in later ones."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle


class Losing:
    """Counts the weights that have a gradient in one step of their optimizer and none in a later
    one; a `Watch`.

    What an optimizer keeps of a weight says that it had one before the look began. Gradients are
    looked at before a step, or after it where a closure computes them within.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._had: set[torch.Tensor] = set()
        self._lost: set[torch.Tensor] = set()
        self._hooks: list[RemovableHandle] = []

    def begin(self) -> None:
        """See `Watch`."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]

    def step(self) -> None:
        """See `Watch`."""

    def end(self) -> int | None:
        """See `Watch`: how many, None where no optimizer was seen to step."""
        for hook in self._hooks:
            hook.remove()
        return len(self._lost) if self._steps else None

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not _has_closure(args, kwargs):
            self._note(optimizer)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if _has_closure(args, kwargs):
            self._note(optimizer)

    def _note(self, optimizer: torch.optim.Optimizer) -> None:
        self._steps += 1
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._had.add(weight)
                elif weight in self._had or weight in optimizer.state:
                    self._lost.add(weight)


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(callable(each) for each in (*args[1:], *kwargs.values()))
