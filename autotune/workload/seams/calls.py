"""What is noted of the calls of models that train."""

from collections import Counter
from typing import Any

import torch
from torch import nn

from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.seams import autocast, samples

_CALLS = 256  # more distinct ones need no counting


def note_training(live: Live, module: nn.Module, args: Any, kwargs: Any) -> None:
    """Note a training call as one of the current step's: its samples, its shape, its line."""
    live.looked = False
    if live.pace.away:
        live.pace.enter_training()
    shape = _note_shape(live, module, args, kwargs)
    if args and isinstance(args[0], dict) and live.leading_loader is None and _is_one(args[0]):
        live.forward_samples += 1
    elif shape is not None:
        # A held-out set with nothing in it takes none away.
        given = live.models.time_first.samples(module, shape)
        live.forward_samples = given or live.forward_samples
    elif not live.forward_samples:  # arrays, or objects of the program's own: graphs, texts
        live.forward_samples = _rows(args[0]) if args else 1
    autocast.follow(live, module, args, kwargs)
    if live.discovering:
        if not live.forward_begun:
            live.note_place("forward")
            live.forward_begun, live.evaluated = True, 0 if module.training else id(module)
            samples.forget_dropped(live, (args, kwargs))
        elif module.training and live.evaluated == id(module):  # first it was only looked at
            live.note_place("forward")
            live.evaluated = 0
        if shape is not None and not live.drawn:
            live.models.time_first.look(module, shape)
        live.models.note(module, live.pace.steps)
        autocast.note(live)


def _rows(given: Any) -> int:
    """Samples in what a model is given, which is no tensor: a list, an array of NumPy's."""
    several = isinstance(given, (list, tuple)) or bool(getattr(given, "ndim", 0))
    return len(given) if several else 1


def _note_shape(live: Live, module: nn.Module, args: Any, kwargs: Any) -> torch.Size | None:
    """Remember the shape of the first tensor that `module` is given, and the numbers; the shape."""
    live.outputs.look()
    given = args[0] if args else None
    found = given if isinstance(given, torch.Tensor) else batches.first_tensor(args, kwargs)
    if found is not None and not found.dim():  # a time, a temperature
        rows = (each for each in batches.tensors((args, kwargs)) if each.dim())
        found = next(rows, found)
    if found is None:
        return None
    if len(live.calls) < _CALLS:
        live.calls.add((id(module), tuple(found.shape), _numbers(args, kwargs)))
    return found.shape


def note_for_good(live: Live, module: nn.Module, args: Any, kwargs: Any) -> torch.Size | None:
    """The shape with which further calls are alike; None where they may have other numbers."""
    shape = _note_shape(live, module, args, kwargs)
    return None if _numbers(args, kwargs) else shape


def _numbers(args: Any, kwargs: Any) -> tuple[float, ...]:
    """A step's number, a rate: compiled code holds for just these where it is not dynamic."""
    return tuple(each for each in (*args, *kwargs.values()) if isinstance(each, int | float))


def _is_one(parts: dict[Any, Any]) -> bool:
    """Whether these are the parts of one sample, a graph's nodes and edges say: most of a batch's
    tensors have as many rows.
    """
    rows = Counter(each.shape[0] for each in batches.tensors(parts) if each.dim())
    return len(rows) > 1 and 2 * max(rows.values()) <= rows.total()
