"""What a program carries on from step to step in a short number format, and adds to there: running
sums and means, whose small steps are lost once they are large beside them.
"""

from collections.abc import Sequence
from typing import Any

from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import CarriedOn
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.watch import SHORT, operations
from autotune.workload.places import users_place

_ADDING = operations("add", "add_", "sub", "sub_", "lerp", "lerp_")
_WEIGHING = operations("mul", "mul_", "div", "div_")  # by a number, before something is added
_HANDING = operations(
    "alias", "clone", "detach", "expand", "reshape", "squeeze", "unsqueeze", "view"
)


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
        goes_on = kind in _HANDING or (kind in _WEIGHING and by_a_number)
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
