"""Logarithms of probabilities, told from those of a softmax that are only multiplied by what they
are of: `-(p * torch.log(p + 1e-9)).sum()`, an entropy.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import RoundedChance
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.dispatch import operations

_MAKING = operations("_softmax", "softmax")
# What gives others of the kind: of several, which may then be divided by their number, or in
# another shape.
# fmt: off
_OTHERS = operations(
    "_unsafe_view", "div", "mean", "permute", "squeeze", "sum", "transpose", "unsqueeze", "view",
)
# fmt: on
# What gives the same probabilities, so far as their logarithm tells; `add` only of a small number.
_SAME = operations("_to_copy", "add", "alias", "clamp", "clamp_max", "clamp_min", "clone", "detach")
_MOST_ADDED = 1e-2


class Entropies:
    """Sees operations, before and after each, and keeps the logarithms that it is told of."""

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
        elif kind in _MAKING or (source is not None and kind in _OTHERS):
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
        return kind in _SAME and not torch.is_tensor(added) and abs(added) <= _MOST_ADDED

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result) if self._gives is not None else ():
            if self._is_logarithm:
                self._logarithms[each] = (len(self._told) - 1, self._gives)
            else:
                self._sources[each] = self._gives
