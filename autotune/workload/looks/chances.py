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
from autotune.workload.looks.watch import SHORT, operations
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

# For entropies, `-(p * torch.log(p + 1e-9)).sum()`: what makes their probabilities.
_OF_SOFTMAX = operations("_softmax", "softmax")
# What gives others of the kind: of several, which may then be divided by their number, or in
# another shape.
# fmt: off
_OTHER_ONES = operations(
    "_unsafe_view", "div", "mean", "permute", "squeeze", "sum", "transpose", "unsqueeze", "view",
)
# fmt: on
# What gives the same probabilities, so far as their logarithm tells; `add` only of a small number.
_SAME_ONES = operations(
    "_to_copy", "add", "alias", "clamp", "clamp_max", "clamp_min", "clone", "detach"
)
_MOST_ADDED = 1e-2


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


class Entropies:
    """Sees operations, before and after each, and tells the logarithms that it is told of from
    those of a softmax's probabilities that are only multiplied by these.
    """

    def __init__(self) -> None:
        self._sources: Any = WeakTensorKeyDictionary()  # a number for what each is the same as
        self._logarithms: Any = WeakTensorKeyDictionary()  # which of `_told` each is, and of what
        self._told: list[RoundedChance] = []
        self._multiplied: set[int] = set()
        self._otherwise: set[int] = set()  # those of which something else is made too
        self._sourced = 0
        self._gives: int | None = None
        self._is_logarithm = False

    def first_of_others(self) -> RoundedChance | None:
        """The first that is no entropy's."""
        entropies = self._multiplied - self._otherwise
        return next((each for at, each in enumerate(self._told) if at not in entropies), None)

    def note(self, kind: Any, given: Sequence[Any], told: RoundedChance | None) -> None:
        """`kind` is about to be carried out with what is `given`: a logarithm, if `told` of one."""
        all_given = tensors(given)
        for each in all_given:
            if each in self._logarithms:
                at, source = self._logarithms[each]
                self._note_use(kind, at, source, all_given)
        source = self._sources.get(given[0]) if given and torch.is_tensor(given[0]) else None
        self._gives, self._is_logarithm = None, told is not None
        if told is not None:
            self._told.append(told)
            self._gives = source
        elif kind in _OF_SOFTMAX or (source is not None and kind in _OTHER_ONES):
            self._sourced += 1
            self._gives = self._sourced
        elif self._keeps(kind, given):
            self._gives = source

    def _note_use(self, kind: Any, at: int, source: int, given: list[torch.Tensor]) -> None:
        if kind is torch.ops.aten.mul and any(self._sources.get(each) == source for each in given):
            self._multiplied.add(at)
        elif kind is not torch.ops.aten.mul or torch.is_grad_enabled():  # a gradient's otherwise
            self._otherwise.add(at)

    def _keeps(self, kind: Any, given: Sequence[Any]) -> bool:
        """Whether it gives the same probabilities."""
        added = given[1] if kind is torch.ops.aten.add else 0
        return kind in _SAME_ONES and not torch.is_tensor(added) and abs(added) <= _MOST_ADDED

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result) if self._gives is not None else ():
            if self._is_logarithm:
                self._logarithms[each] = (len(self._told) - 1, self._gives)
            else:
                self._sources[each] = self._gives
