"""A block of a model whose activations are computed again in the backward pass."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


def recomputed(forward: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`forward` of these arguments, its activations not kept.

    All of them go to `checkpoint` by position: torch keeps the random numbers of those devices that
    it finds tensors of there, and dropout would draw another mask where it finds none.
    """
    count, names = len(args), tuple(kwargs)

    def run(*given: Any) -> Any:
        return forward(*given[:count], **dict(zip(names, given[count:], strict=True)))

    return checkpoint(run, *args, *kwargs.values(), use_reentrant=False)


def is_checkpointed(module: nn.Module) -> bool:
    """Whether its activations are recomputed: by the knob, by a patch, or in transformers' way."""
    forward = vars(module).get("forward")
    wrapped = isinstance(forward, functools.partial) and _recomputes(forward.func)
    return wrapped or getattr(module, "gradient_checkpointing", False) is True


def _recomputes(function: Callable[..., Any]) -> bool:
    """Whether it is torch's `checkpoint`, or calls it."""
    names = function.__code__.co_names if isinstance(function, FunctionType) else ()
    known = getattr(function, "__globals__", {})
    return function is checkpoint or any(known.get(name) is checkpoint for name in names)
