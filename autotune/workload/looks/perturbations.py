"""Small changes of what a model is given, as of virtual adversarial training and finite
differences, which a short number format rounds away before anything is computed of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import RoundedChange
from autotune.workload.loading.batches import tensors
from autotune.workload.places import users_place

_SHORT = (torch.bfloat16, torch.float16)
_CHANGING = ("add", "sub")
# fmt: off
_HANDING = (
    "_unsafe_view", "alias", "cat", "clone", "detach", "expand", "permute", "reshape", "select",
    "slice", "squeeze", "stack", "t", "transpose", "unsqueeze", "view",
)
# fmt: on
# Of the size of what it changes, in steps of the format: half a step is rounded away, but what
# lies near 0 has finer ones.
_LEAST = 0.25


class Perturbations:
    """Sees operations, before and after each, and finds the first such change."""

    def __init__(self) -> None:
        aten = torch.ops.aten
        self._changing = {getattr(aten, name) for name in _CHANGING}
        self._handing = {getattr(aten, name) for name in _HANDING}
        self._copy = aten._to_copy
        self._of_weights: Any = WeakTensorKeyDictionary()
        self._changed: Any = WeakTensorKeyDictionary()
        self._makes: RoundedChange | None = None  # what the operation that is carried out gives
        self._is_of_weights = False
        self.found: RoundedChange | None = None

    def note(self, kind: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """`kind` is about to be carried out with what is `given`, and `named`."""
        inside = list(tensors(given))
        self._is_of_weights = any(map(self._is_weighed, inside))
        self._makes = None
        if self._is_of_weights:
            return
        if kind in self._changing:
            self._makes = _change(given, float(named.get("alpha", 1.0)))
        elif kind in self._handing:
            known = (self._changed.get(each) for each in inside)
            self._makes = next(filter(None, known), None)
        elif kind is self._copy and named.get("dtype") in _SHORT and self.found is None:
            change, eps = self._changed.get(given[0]), torch.finfo(named["dtype"]).eps
            self.found = change if change and change.share < _LEAST * eps else None

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result):
            if self._is_of_weights:
                self._of_weights[each] = True
            elif self._makes is not None:
                self._changed[each] = self._makes

    def _is_weighed(self, tensor: torch.Tensor) -> bool:
        return isinstance(tensor, nn.Parameter) or tensor in self._of_weights


def _change(given: Sequence[Any], alpha: float) -> RoundedChange | None:
    """What the smaller of two tensors of the same numbers in float32 changes the other by."""
    if len(given) < 2 or not all(map(torch.is_tensor, given[:2])):
        return None
    one, other = (each.detach() for each in given[:2])
    if one.shape != other.shape or not one.ndim or {one.dtype, other.dtype} != {torch.float32}:
        return None
    sizes = float(one.square().mean().sqrt()), abs(alpha) * float(other.square().mean().sqrt())
    small, large = min(sizes), max(sizes)
    return RoundedChange(place=users_place(), share=small / large) if small and large else None
