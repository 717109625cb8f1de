"""Passes: the lines of the program that backward ones come from, how many a step has, and forward
ones with gradients that no backward pass follows: a validation without `no_grad()`.
"""

import math
import weakref
from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from autotune.source.edits import Place
from autotune.workload.loading import batches

# That are kept: a program with more of them goes back and forth.
MOST_STRETCHES = 8
# Steps that say how many forward passes are usual; a step with so many times more is looked at.
_RECENT, _FEWEST_RECENT, _MANY = 16, 4, 2


@dataclass(slots=True, kw_only=True)
class Passes:
    """Lines that backward passes come from: those of the first steps, of each optimizer that steps
    beside the leading one, though it may do so in a loop of its own that comes later, and of what
    the program calls `Tensor.backward` from at any time.
    """

    places: set[Place] = field(default_factory=set)  # the lines
    # Where in which code `Tensor.backward` was called.
    callers: set[tuple[int, int]] = field(default_factory=set)
    looking: bool = False  # an optimizer has stepped whose passes nobody has noted: the next are
    # Of consecutive steps with as many passes: the first step of each, and how many. Of a program
    # that goes back and forth not all of them.
    stretches: list[tuple[int, int]] = field(default_factory=list)
    _total: int = 0
    _usual: int = -1  # of the last stretch
    _known: "weakref.WeakSet[torch.optim.Optimizer]" = field(default_factory=weakref.WeakSet)

    def count(self, step: int, total: int) -> None:
        """There were so many in `total` when this step ended."""
        passes, self._total = total - self._total, total
        if passes == self._usual:
            return
        self._usual = passes
        if len(self.stretches) < MOST_STRETCHES:
            self.stretches.append((step, passes))

    def note(self, place: Place | None) -> None:
        """A pass comes from there."""
        if place is not None:
            self.places.add(place)

    def other_stepped(self, optimizer: torch.optim.Optimizer, *, noted: bool) -> None:
        """An optimizer has stepped beside the leading one; its passes were `noted`, or not."""
        if optimizer in self._known:
            return
        if noted or self.looking:
            self._known.add(optimizer)
            self.looking = False
        else:
            self.looking = True

    def clear(self) -> None:
        """Another training is looked at from now on."""
        self.places.clear()
        self.callers.clear()
        self.stretches.clear()
        self._known.clear()
        self.looking, self._total, self._usual = False, 0, -1


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
