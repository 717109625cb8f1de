"""Forward passes with gradients that no backward pass follows: a validation without `no_grad()`."""

import math
from collections import Counter, deque
from statistics import median
from typing import Any

from autotune.workload.loading import batches

# Steps that say how many forward passes are usual; a step with so many times more is looked at.
_RECENT, _FEWEST_RECENT, _MANY = 16, 4, 2


class Strays:
    """Tells steps that hold something else than training, by their forward passes: many more than
    usual, on batches as large as those of a backward pass (those of a rollout are not), of which
    hardly one takes part in one (those of a longer sequence do). Where there are many more backward
    passes too, another training has come in between, whatever it evaluates.
    """

    def __init__(self) -> None:
        self.calls = self.backwards = 0  # forward passes with gradients since the last step
        self.many = math.inf  # when there are more, the rest of them is looked at
        self._counted = Counter[int]()
        self._recent: deque[tuple[int, int, float]] = deque(maxlen=_RECENT)
        self._rows: list[int] = []
        self._followed: set[int] = set()

    def look(self, given: Any, outcome: Any) -> None:
        """Look, of more than usual, whether a backward pass comes to `outcome`, made of `given`."""
        if self.calls <= self.many:
            return
        rows = (each.shape[0] for each in batches.tensors(given) if each.dim())
        number, followed = len(self._rows), self._followed
        self._rows.append(next(rows, 0))
        for each in batches.tensors(outcome):
            if each.grad_fn is not None:
                each.register_hook(lambda _: followed.add(number))

    def step(self, seconds: float, samples: int) -> tuple[float, int]:
        """A step of `seconds` on `samples` is complete: how much longer it was than others by what
        is not training, and how many forward passes that had.
        """
        calls, self.calls = self.calls, 0
        backwards, self.backwards = max(1, self.backwards), 0
        if self._rows:
            usual = max(passes for _, passes, _ in self._recent)
            strayed = backwards <= _MANY * usual and self._are_strays(samples / backwards)
            self._rows, self._followed = [], set()
            if strayed:
                usual_seconds = median(seconds for *_, seconds in self._recent)
                return max(0.0, seconds - usual_seconds), calls - self.usual_calls()
        self._counted[calls] += 1
        self._recent.append((calls, backwards, seconds))
        if self.many != _MANY * calls and len(self._recent) >= _FEWEST_RECENT:
            self.many = _MANY * max(1, self.usual_calls())
        return 0.0, 0

    def take(self) -> tuple[tuple[int, int], ...]:
        """How many steps had so many forward passes, since this was last asked."""
        counted, self._counted = self._counted, Counter()
        return tuple(sorted(counted.items()))

    def _are_strays(self, samples: float) -> bool:
        large = sum(rows >= samples for rows in self._rows)
        followed = len(self._followed)
        return 2 * large > len(self._rows) and 2 * followed < len(self._rows)

    def usual_calls(self) -> int:
        """Forward passes of a usual step, at the most."""
        return max(calls for calls, *_ in self._recent)
