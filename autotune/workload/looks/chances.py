"""Probabilities in a short number format, followed to their logarithm: those near 1 have become 1,
and nothing more is learnt of them. So are uniform random numbers in one (Gumbel's noise).
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
_DRAWING = ("rand", "rand_like", "uniform", "uniform_")
# What makes such once it is taken from 1, or 1 is added: `1 - exp(-rate)`, `1 - tanh(x) ** 2`.
_NEARLY, _POWERS = ("exp", "tanh"), ("mul", "pow")
_SHIFTING, _LEAST_SHIFT = ("add", "sub", "rsub"), 0.5
# What gives them as they are, parts of them, or what they are of 1.
# fmt: off
_HANDING = (
    "_to_copy", "_unsafe_view", "add", "alias", "cat", "clamp", "clamp_max", "clamp_min", "clone",
    "detach", "expand", "gather", "index", "maximum", "minimum", "neg", "permute", "reshape",
    "rsub", "select", "slice", "squeeze", "stack", "sub", "t", "transpose", "unsqueeze", "view",
    "where",
)
# fmt: on
_LOGARITHMS = ("log", "log2", "log10", "log1p", "log_", "binary_cross_entropy")
_GROUPS = (_MAKING, _DRAWING, _NEARLY, _POWERS, _SHIFTING, _HANDING, _LOGARITHMS)
_NEARLY_ONE, _ONE, _DRAWN = range(3)  # what makes a probability yet, one, and random numbers


class Chances:
    """Sees operations, before and after each, and finds the first such logarithm."""

    def __init__(self) -> None:
        making, drawing, nearly, powers, shifting, handing, logarithms = (
            {getattr(torch.ops.aten, name) for name in names} for names in _GROUPS
        )
        self._made = (
            dict.fromkeys(nearly, _NEARLY_ONE)
            | dict.fromkeys(making, _ONE)
            | dict.fromkeys(drawing, _DRAWN)
        )
        self._shifting, self._logarithms = shifting, logarithms
        self._handing, self._powers = handing, powers
        self._known: Any = WeakTensorKeyDictionary()
        self._makes: int | None = None  # what the operation that is carried out gives
        self._hands = False
        self.found: RoundedChance | None = None

    def note(self, kind: Any, given: Sequence[Any]) -> None:
        """`kind` is about to be carried out with what is `given`."""
        known = [self._known[each] for each in tensors(given) if each in self._known]
        most = max(known, default=None)
        if most and kind in self._logarithms and self.found is None:
            self.found = RoundedChance(place=users_place(), drawn=most == _DRAWN)
        nearly = most == _NEARLY_ONE
        self._hands = bool(known) and (kind in self._handing or (nearly and kind in self._powers))
        if nearly and kind in self._shifting and any(map(_shifts, given)):
            most = _ONE
        self._makes = most if self._hands else self._made.get(kind)

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result) if self._makes is not None else ():
            if self._hands or each.dtype in _SHORT:
                self._known[each] = self._makes


def _shifts(given: Any) -> bool:
    return isinstance(given, (int, float)) and abs(given) >= _LEAST_SHIFT
