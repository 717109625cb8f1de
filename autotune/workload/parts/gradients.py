"""Which gradients are gone in later steps, and which the program holds on to itself."""

import sys
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

    Where gradients are not freed, it also counts those that something else holds, or the memory
    that they are a part of: freed, that would go on with dead ones. A loop's variable may hold one.
    """

    def __init__(self) -> None:
        self._alone = _references_of_one_alone()
        self._steps = 0
        self._had: set[torch.Tensor] = set()
        self._lost: set[torch.Tensor] = set()
        self._held: set[torch.Tensor] = set()
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
        held = len(self._held) if len(self._held) > 1 else 0
        return len(self._lost) + held if self._steps else None

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
                    if _references(weight) > self._alone:
                        self._held.add(weight)
                elif weight in self._had or _was_stepped(optimizer.state.get(weight)):
                    self._lost.add(weight)


def _references(weight: torch.Tensor) -> int:
    """How many there are to the gradient of `weight`, or to what that is a view of."""
    assert weight.grad is not None
    of_all = 0 if weight.grad._base is None else sys.getrefcount(weight.grad._base)
    return max(of_all, sys.getrefcount(weight.grad))


def _references_of_one_alone() -> int:
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.zeros(1)
    return _references(weight)


def _was_stepped(state: Mapping[str, Any] | None) -> bool:
    """Whether an optimizer has moved a weight of which it keeps `state`: Adagrad keeps some from
    the start.
    """
    return bool(state and state.get("step", True))


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(callable(each) for each in (*args[1:], *kwargs.values()))
