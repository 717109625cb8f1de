"""A DataLoader that the program built: which one it is of those that the same line builds."""

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from autotune.source.edits import Place
from autotune.workload.seen import SeenLoader

Source = tuple[Place, int]


def nothing() -> None:
    """What has not begun, or is gone."""


@dataclass(slots=True, eq=False, kw_only=True)
class BuiltLoader:
    """A DataLoader that the program built, or had built by a library."""

    loader: weakref.ref[Any]  # itself, or the last that a framework has made from it
    place: Place
    class_place: Place | None  # where a class of the program's own hands on to DataLoader
    caller: Place | None  # the program's own line that had a library build it
    ordinal: int
    trains: bool = False
    is_new: bool = True
    nested: bool = False  # begun again while it was gone through, which then went on
    written: SeenLoader | None = None  # as the program built it, where a framework made another
    kept: Any = None  # the loader, which nobody else may keep, where its workers persist
    iterator: Callable[[], Any] = nothing  # that was drawn from last, while the program has it
    ended: bool = False  # that one has said that it is over: who handles it has it for a while
    slot: int = 0  # among those of its place; one that is made anew has that of the one before
    begun_among: int = 0  # so many had been built there when it was first drawn from

    def __deepcopy__(self, _: Any) -> "BuiltLoader":
        return self

    def __reduce__(self) -> Any:  # a loader that is sent to another process is none of this run's
        return type(None), ()

    @property
    def source(self) -> Source:
        """By which it is told from those that live beside it, but not from those before it."""
        return self.place, self.slot

    def begin(self, iterator: Any, known: Iterable["BuiltLoader"], count: int) -> None:
        """It is drawn from by another iterator; of `known` loaders, `count` were ever built at its
        place. Where it lives beside others of them (a helper builds all), it has a slot of its own.
        """
        self.iterator, self.ended = weakref.ref(iterator), False
        self.begun_among = self.begun_among or count
        others = (each for each in known if each is not self and each.place == self.place)
        taken = {each.slot for each in others if self._lives_beside(each)}
        if self.slot in taken:
            self.slot = min(set(range(len(taken) + 1)) - taken)

    def _lives_beside(self, other: "BuiltLoader") -> bool:
        """Whether it is no `other` made anew: it was there when that began, or that goes on."""
        goes_on = other.iterator() is not None and not other.ended
        return self.ordinal < other.begun_among or goes_on
