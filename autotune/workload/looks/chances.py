"""Probabilities in a short number format, followed to their logarithm: those near 1 have become 1,
and nothing more is learnt of them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import RoundedChance
from autotune.workload.loading.batches import tensors
from autotune.workload.places import users_place

_SHORT = (torch.bfloat16, torch.float16)
_MAKING = ("sigmoid", "sigmoid_", "_softmax", "softmax")
# What gives them as they are, parts of them, or what they are of 1.
# fmt: off
_HANDING = (
    "_to_copy", "_unsafe_view", "add", "alias", "cat", "clamp", "clamp_max", "clamp_min", "clone",
    "detach", "expand", "gather", "index", "maximum", "minimum", "permute", "reshape", "rsub",
    "select", "slice", "squeeze", "stack", "sub", "t", "transpose", "unsqueeze", "view", "where",
)
# fmt: on
_LOGARITHMS = ("log", "log2", "log10", "log1p", "log_", "binary_cross_entropy")


class Chances:
    """Sees operations, before and after each, and finds the first such logarithm."""

    def __init__(self) -> None:
        made, handed, logged = (
            {getattr(torch.ops.aten, name) for name in names}
            for names in (_MAKING, _HANDING, _LOGARITHMS)
        )
        self._making, self._handing, self._logarithms = made, handed, logged
        self._known: Any = WeakTensorKeyDictionary()
        self._makes = self._hands = False
        self.found: RoundedChance | None = None

    def note(self, kind: Any, given: Sequence[Any]) -> None:
        """`kind` is about to be carried out with what is `given`."""
        self._makes = kind in self._making
        known = any(each in self._known for each in tensors(given))
        self._hands = known and kind in self._handing
        if known and kind in self._logarithms and self.found is None:
            self.found = RoundedChance(place=users_place())

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result) if self._makes or self._hands else ():
            if self._hands or each.dtype in _SHORT:
                self._known[each] = True
