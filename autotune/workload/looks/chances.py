"""Probabilities in a short number format, followed to their logarithm: those near 1 have become 1,
and nothing more is learnt of them, unless the logarithm is only multiplied by them (an entropy:
what it teaches is said by the small ones, which are kept). So are uniform random numbers in one
(Gumbel's noise).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import RoundedChance
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.dispatch import SHORT, operations
from autotune.workload.looks.entropies import Entropies
from autotune.workload.places import users_place

_MAKING = operations("sigmoid", "sigmoid_", "_softmax", "softmax")
_DRAWING = operations("rand", "rand_like", "uniform", "uniform_")
# What makes such once it is taken from 1, or 1 is added: `1 - exp(-rate)`, `1 - tanh(x) ** 2`.
_NEARLY, _POWERS = operations("exp", "tanh"), operations("mul", "pow")
_SHIFTING, _LEAST_SHIFT = operations("add", "sub", "rsub"), 0.5
# What gives them as they are, parts of them, or what they are of 1.
# fmt: off
_HANDING = operations(
    "_to_copy", "_unsafe_view", "add", "alias", "cat", "clamp", "clamp_max", "clamp_min", "clone",
    "detach", "expand", "gather", "index", "maximum", "minimum", "neg", "permute", "reshape",
    "rsub", "select", "slice", "squeeze", "stack", "sub", "t", "transpose", "unsqueeze", "view",
    "where",
)
# fmt: on
# What gives them weighted, masked or added up, which leaves 1 where they have become 1.
_SCALING, _ADDING_UP = operations("mul", "div"), operations("mean", "scatter_add", "sum")
_LOGARITHMS = operations("log", "log2", "log10", "log1p", "log_", "binary_cross_entropy")
# What makes a probability yet, one, what is taken from 1 or added to it, and random numbers.
_NEARLY_ONE, _ONE, _TAKEN, _DRAWN = range(4)
_MADE = (
    dict.fromkeys(_NEARLY, _NEARLY_ONE)
    | dict.fromkeys(_MAKING, _ONE)
    | dict.fromkeys(_DRAWING, _DRAWN)
)


class Chances:
    """Sees operations, before and after each; `found` is the first such logarithm."""

    def __init__(self) -> None:
        self._known: Any = WeakTensorKeyDictionary()
        self._makes: int | None = None  # what the operation that is carried out gives
        self._hands = False
        self._entropies = Entropies()

    @property
    def found(self) -> RoundedChance | None:
        """The first that is no entropy's."""
        return self._entropies.first_of_others()

    def note(self, kind: Any, given: Sequence[Any]) -> None:
        """`kind` is about to be carried out with what is `given`."""
        known = [self._known[each] for each in tensors(given) if each in self._known]
        most = max(known, default=None)
        told = None
        if most and kind in _LOGARITHMS:
            told = RoundedChance(place=users_place(), drawn=most == _DRAWN)
        self._entropies.note(kind, given, told)
        nearly = most == _NEARLY_ONE
        hands = kind in _HANDING or (nearly and kind in _POWERS)
        hands = hands or (most in (_ONE, _TAKEN) and self._weighs(kind, given, most == _TAKEN))
        self._hands = bool(known) and hands
        takes = (nearly and kind in _SHIFTING) or kind is torch.ops.aten.rsub
        numbers = (abs(each) for each in given if isinstance(each, (int, float)))
        if takes and most in (_NEARLY_ONE, _ONE) and max(numbers, default=0) >= _LEAST_SHIFT:
            most = _TAKEN
        self._makes = most if self._hands else _MADE.get(kind)

    def _weighs(self, kind: Any, given: Sequence[Any], taken: bool) -> bool:
        """Whether it adds probabilities up, or weights them: by a number, by others, by a mask or
        a scale that is not learnt; not by data, as many as they are. What is `taken` from 1 is lost
        as it becomes 0, whatever its scale; others are no probabilities on a larger one.
        """
        if kind not in _SCALING:
            return kind in _ADDING_UP
        if kind is torch.ops.aten.div:
            by_a_number = given[0] in self._known and not torch.is_tensor(given[1])
            return by_a_number and (taken or abs(given[1]) >= 1)
        most = max(each.numel() for each in tensors(given) if each in self._known)
        return all(self._is_weight(each, most, taken) for each in given)

    def _is_weight(self, each: Any, most: int, taken: bool) -> bool:
        if not torch.is_tensor(each):
            return taken or abs(each) <= 1
        if each in self._known:
            return True
        is_scale = not each.requires_grad and (each.numel() < most or _is_mask(each))
        return is_scale and (taken or _is_mask(each) or bool((each.abs() <= 1).all()))

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        self._entropies.note_result(result)
        for each in tensors(result) if self._makes is not None else ():
            if self._hands or each.dtype in SHORT:
                self._known[each] = self._makes


def _is_mask(numbers: torch.Tensor) -> bool:
    return bool(((numbers == 0) | (numbers == 1)).all())
