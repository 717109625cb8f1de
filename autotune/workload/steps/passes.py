"""The lines of the program that its backward passes come from."""

import weakref
from dataclasses import dataclass, field

import torch

from autotune.source.edits import Place


@dataclass(slots=True, kw_only=True)
class Passes:
    """Lines that backward passes come from: those of the first steps, and of each optimizer that
    steps beside the leading one, though it may do so in a loop of its own that comes later.

    Attributes:
        places: the lines.
        looking: an optimizer has stepped whose passes nobody has noted: the next ones are to be.
    """

    places: set[Place] = field(default_factory=set)
    looking: bool = False
    _known: "weakref.WeakSet[torch.optim.Optimizer]" = field(default_factory=weakref.WeakSet)

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
        self._known.clear()
        self.looking = False
