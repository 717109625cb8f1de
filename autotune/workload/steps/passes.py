"""Backward passes: the lines of the program that they come from, and how many a step has."""

import weakref
from dataclasses import dataclass, field

import torch

from autotune.source.edits import Place

# That are kept: a program with more of them goes back and forth.
MOST_STRETCHES = 8


@dataclass(slots=True, kw_only=True)
class Passes:
    """Lines that backward passes come from: those of the first steps, of each optimizer that steps
    beside the leading one, though it may do so in a loop of its own that comes later, and of what
    the program calls `Tensor.backward` from at any time.
    """

    places: set[Place] = field(default_factory=set)  # the lines
    callers: set[tuple[int, int]] = field(default_factory=set)  # where in which code that was
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
