"""The loss scaled as fp16 needs, and gradients never: what a program does with them between
backward and step, it does with gradients at their own size.
"""

from collections import defaultdict
from typing import Any

import torch

from autotune.workload.live import Live

_scale = torch.amp.GradScaler.scale


def scaled(live: Live, loss: torch.Tensor) -> torch.Tensor:
    """`loss` as its backward pass needs it; gradients that it is added to are made to match."""
    if live.scaler is None:
        live.scaler = torch.amp.GradScaler(live.device().type)
    scale_again(live)
    outcome: torch.Tensor = _scale(live.scaler, loss)
    return outcome


def unscale(live: Live) -> None:
    """After a backward pass, as `GradScaler.unscale_` does; the step then does not do it."""
    if live.scaler is None or live.group_open:
        return
    optimizer = live.leader() if live.leader else next(_with_gradients(live), None)
    if optimizer is not None:
        live.scaler.unscale_(optimizer)
        live.unscaled = optimizer


def scale_again(live: Live) -> None:
    """Take `unscale` back: the program adds other gradients, or has left out the step.

    Scales are powers of two, so that nothing is rounded; what has overflowed stays infinite, and is
    found by the next `unscale`.
    """
    optimizer, live.unscaled = live.unscaled, None
    if live.scaler is None or optimizer is None:
        return
    live.scaler._per_optimizer_states.pop(id(optimizer), None)
    gradients: dict[torch.device, list[torch.Tensor]] = defaultdict(list)
    for each in _gradients(optimizer):
        gradients[each.device].append(each)
    with torch.no_grad():
        for device, ours in gradients.items():
            torch._foreach_mul_(ours, _scale(live.scaler, torch.ones((), device=device)))


def step(live: Live, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """A step that is left out where gradients have overflowed."""
    assert live.scaler is not None
    if live.unscaled is not optimizer:
        scale_again(live)
    outcome = live.scaler.step(optimizer, *args, **kwargs)
    live.scaler.update()
    live.unscaled = None
    return outcome


def _with_gradients(live: Live) -> Any:
    known = (each() for each in live.optimizers)
    return (each for each in known if each is not None and _gradients(each))


def _gradients(optimizer: Any) -> list[torch.Tensor]:
    parameters = (each for group in optimizer.param_groups for each in group["params"])
    return [each.grad for each in parameters if each.grad is not None]
