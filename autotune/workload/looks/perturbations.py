"""Small changes of what a model is given, as of virtual adversarial training and finite
differences, which a short number format rounds away before anything is computed of them; and what
a program carries on from step to step in one, and adds to there: running sums and means, whose
small steps are lost once they are large beside them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.source.edits import Place
from autotune.workload.found import CarriedOn, RoundedChange
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.watch import SHORT, operations
from autotune.workload.places import users_place

_CHANGING, _COPY = operations("add", "sub"), torch.ops.aten._to_copy
# fmt: off
_HANDING = operations(
    "_unsafe_view", "alias", "cat", "clone", "detach", "expand", "permute", "reshape", "select",
    "slice", "squeeze", "stack", "t", "transpose", "unsqueeze", "view",
)
# fmt: on
_ADDING = operations("add", "add_", "sub", "sub_", "lerp", "lerp_")
_WEIGHING = operations("mul", "mul_", "div", "div_")  # by a number, before something is added
_KEEPING = operations(
    "alias", "clone", "detach", "expand", "reshape", "squeeze", "unsqueeze", "view"
)
# By where a tensor was changed, which change of a step's that was there, and its share of the
# tensor: of several the first, and the largest share.
Changes = dict[Place | None, tuple[int, float]]


class Perturbations:
    """Sees operations, before and after each, and when steps end; `found` are all changes of what
    is rounded, each with the largest share that it had in any step.
    """

    def __init__(self) -> None:
        self._of_weights: Any = WeakTensorKeyDictionary()
        self._changed: Any = WeakTensorKeyDictionary()
        self._makes: Changes = {}  # what the operation that is carried out gives
        self._is_of_weights = False
        self._turns = Counter[Place | None]()  # in this step
        self._found: dict[tuple[Place | None, int], RoundedChange] = {}

    @property
    def found(self) -> tuple[RoundedChange, ...]:
        """All changes that were rounded so far."""
        return tuple(self._found.values())

    def step(self) -> None:
        """What follows is another step's."""
        self._turns.clear()

    def note(self, kind: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """`kind` is about to be carried out with what is `given`, and `named`."""
        inside = list(tensors(given))
        weights = self._of_weights
        self._is_of_weights = any(isinstance(at, nn.Parameter) or at in weights for at in inside)
        self._makes = {}
        if self._is_of_weights:
            return
        if kind in _CHANGING:
            if share := _share(given, float(named.get("alpha", 1.0))):
                place = users_place()
                self._makes = {place: (self._turns[place], share)}
                self._turns[place] += 1
        elif kind in _HANDING:
            for place, turn, share in self._changes_of(inside):
                first, most = self._makes.get(place, (turn, share))
                self._makes[place] = min(first, turn), max(most, share)
        elif kind is _COPY and named.get("dtype") in SHORT:
            step = torch.finfo(named["dtype"]).eps
            for place, turn, share in self._changes_of(inside):
                known = self._found.get((place, turn))
                if known is None or share > known.share:
                    found = RoundedChange(place=place, turn=turn, share=share, step=step)
                    self._found[place, turn] = found

    def _changes_of(
        self, inside: Sequence[torch.Tensor]
    ) -> Iterator[tuple[Place | None, int, float]]:
        for each in inside:
            for place, (turn, share) in self._changed.get(each, {}).items():
                yield place, turn, share

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result):
            if self._is_of_weights:
                self._of_weights[each] = True
            elif self._makes:
                self._changed[each] = self._makes


def _share(given: Sequence[Any], alpha: float) -> float:
    """What the smaller of two tensors of the same numbers in float32 changes the other by, as a
    share of it; 0.0 where it does not.
    """
    if len(given) < 2 or not all(map(torch.is_tensor, given[:2])):
        return 0.0
    one, other = (each.detach() for each in given[:2])
    if one.shape != other.shape or not one.ndim or {one.dtype, other.dtype} != {torch.float32}:
        return 0.0
    sizes = float(one.square().mean().sqrt()), abs(alpha) * float(other.square().mean().sqrt())
    return min(sizes) / max(sizes) if all(sizes) else 0.0


class Carrying:
    """Sees operations, before and after each, and when steps end, and finds the first that adds to
    what an earlier step has left.
    """

    def __init__(self) -> None:
        self._made: Any = WeakTensorKeyDictionary()  # in which step each in a short format was
        self._since: int | None = None  # what the operation that is carried out goes on with is
        self._adds = False
        self._step = 0
        self.found: CarriedOn | None = None

    def step(self) -> None:
        """What follows is another step's."""
        self._step += 1

    def note(self, kind: Any, given: Sequence[Any]) -> None:
        """`kind` is about to be carried out with what is `given`."""
        made = [self._made[each] for each in tensors(given) if each in self._made]
        earliest = min(made, default=self._step)
        by_a_number = len(given) > 1 and isinstance(given[1], (int, float))
        goes_on = kind in _KEEPING or (kind in _WEIGHING and by_a_number)
        self._since = earliest if goes_on else None
        self._adds = kind in _ADDING and earliest < self._step

    def note_result(self, result: Any) -> None:
        """It has given `result`."""
        for each in tensors(result):
            if each.dtype not in SHORT:
                continue
            if self._adds and self.found is None:
                self.found = CarriedOn(place=users_place())
            if self._since is not None or each not in self._made:  # or it was written into
                self._made[each] = self._step if self._since is None else self._since
