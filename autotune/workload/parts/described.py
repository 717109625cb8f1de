"""What an optimizer of a training program is, and has come to, as plain data."""

from collections.abc import Iterable

import torch
from torch import nn

from autotune.workload.loading.batches import bytes_of
from autotune.workload.parts.optimizer import weights_of
from autotune.workload.seen import SeenOptimizer


def sparse_tables(models: Iterable[nn.Module]) -> frozenset[int]:
    """The `id` of each embedding's weight in `models` whose gradients are sparse."""
    parts = (each for model in models for each in model.modules())
    tables = (each for each in parts if isinstance(each, nn.Embedding | nn.EmbeddingBag))
    weights = (getattr(each, "weight", None) for each in tables if each.sparse)  # made by a hook?
    return frozenset(id(each) for each in weights if each is not None)


def describe_optimizer(
    optimizer: torch.optim.Optimizer,
    *,
    closure: bool = False,
    sparse: frozenset[int] = frozenset(),
) -> SeenOptimizer:
    """`optimizer` as it is now; `closure` says that its step was called with one, and `sparse` has
    the `id` of weights whose gradients are sparse.
    """
    groups = optimizer.param_groups
    parameters = list(weights_of(optimizer))
    settings = {**optimizer.defaults, **groups[0]}
    # Neither fused nor foreach can be differentiated through.
    differentiable = bool(settings.get("differentiable"))
    tensors = _kept_of_each(optimizer)
    trained = [each for each in parameters if each.requires_grad]
    new = [each for each in trained if not tensors.get(id(each))]
    had = [each for each in parameters if each.grad is not None or tensors.get(id(each))]
    return SeenOptimizer(
        name=type(optimizer).__name__,
        fused=settings.get("fused"),
        foreach=settings.get("foreach"),
        takes_fused="fused" in optimizer.defaults and not differentiable,
        takes_foreach="foreach" in optimizer.defaults and not differentiable,
        parameters=sum(each.numel() for each in parameters),
        closure=closure,
        state_bytes=bytes_of(value for of_one in tensors.values() for value in of_one),
        trained_bytes=bytes_of(trained),
        updated=sum(each.numel() for each in had),
        complex_weights=any(each.is_complex() for each in parameters),
        sparse_weights=any(id(each) in sparse for each in parameters),
        without_state=len(new),
        idle=_keeps_state(optimizer)
        and len(new) == len(trained) > 0
        and all(each.grad is None for each in trained),
        strides_differ=any(map(_lies_otherwise, parameters)),
        eps=min(
            (each["eps"] for each in groups if isinstance(each.get("eps"), float)), default=None
        ),
    )


def _kept_of_each(optimizer: torch.optim.Optimizer) -> dict[int, list[torch.Tensor]]:
    """The tensors that it keeps of each weight, by the `id` of that."""
    return {
        id(weight): [value for value in of_one.values() if isinstance(value, torch.Tensor)]
        for weight, of_one in optimizer.state.items()
        if isinstance(of_one, dict)
    }


def _keeps_state(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it keeps something of each weight: torch's do, but for SGD without momentum."""
    of_torch = type(optimizer).__module__.startswith("torch.optim.")
    momentum = any(group.get("momentum", 1) for group in optimizer.param_groups)
    return of_torch and (type(optimizer).__name__ != "SGD" or momentum)


def _lies_otherwise(parameter: torch.Tensor) -> bool:
    """Whether its gradient has its numbers in another order in memory."""
    gradient = parameter.grad
    if gradient is None or gradient.layout is not torch.strided:
        return False
    strides = zip(parameter.shape, parameter.stride(), gradient.stride(), strict=True)
    return any(size > 1 and own != other for size, own, other in strides)
