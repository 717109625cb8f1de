"""The copies of a step to the device: how many, from where, and if the program knows of them."""

import weakref
from dataclasses import dataclass, field

import torch

from autotune.source.edits import Place
from autotune.workload.loading.batches import count_bytes
from autotune.workload.places import calling_place
from autotune.workload.seen import NOTABLE_BYTES


@dataclass(frozen=True, slots=True)
class _Source:
    """What a step has copied: the tensor that the memory is of, and which part of it."""

    step: int
    tensor: "weakref.ref[torch.Tensor]"
    begin: int
    end: int

    @classmethod
    def of(cls, tensor: torch.Tensor, step: int) -> "_Source":
        begin = int(tensor.storage_offset()) * tensor.element_size()
        whole = tensor if tensor._base is None else tensor._base
        return cls(step, weakref.ref(whole), begin, begin + count_bytes(tensor))

    def is_again(self, later: "_Source") -> bool:
        """Whether a `later` step copies some of the same memory."""
        overlap = self.begin < later.end and later.begin < self.end
        return overlap and self.step < later.step and self.tensor() is later.tensor()


@dataclass(slots=True, kw_only=True)
class Copied:
    """What was copied in training steps."""

    count: int = 0  # of copies
    unblocked: int = 0  # of those that did not wait
    aside: bool = False  # some were made on a stream that does not train, or by a thread
    # One of `batches` has copied the same page-locked memory in two steps. The program may fill a
    # buffer of its own anew, and must know that it was copied. From other memory the call returns
    # once it was read (torch's guide to `pin_memory` and `non_blocking`).
    again: bool = False
    places: set[Place] = field(default_factory=set)  # the user's lines that made them, first
    # Those of them that were at a batch: what was copied in a row, before the model is called or
    # after, came to a notable size.
    batches: set[Place] = field(default_factory=set)
    _blocking: set[Place] = field(default_factory=set)  # places that have waited
    _row: tuple[int, bool] | None = None
    _row_bytes: int = 0
    _from: dict[Place, list["_Source"]] = field(default_factory=dict)

    @property
    def non_blocking(self) -> bool:
        """Whether batches were copied without waiting: by the lines that copy them where these are
        known, else by all copies.
        """
        if self.batches:
            return self.batches.isdisjoint(self._blocking)
        return 0 < self.count == self.unblocked

    def note(
        self,
        tensor: torch.Tensor,
        step: int,
        row: tuple[int, bool] | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Remember the user's line that copies `tensor` in a step, what memory that is, and whether
        it waits; `row` tells copies of another step, and those after the model is called, from
        those before.
        """
        place = calling_place()
        if place is None:
            return
        source, known = _Source.of(tensor, step), self._from.setdefault(place, [])
        came_again = any(each.is_again(source) for each in known)
        self.again = self.again or (came_again and tensor.is_pinned())
        known.append(source)
        self.places.add(place)
        if waits:
            self._blocking.add(place)
        goes_on = row is not None and row == self._row
        self._row, self._row_bytes = row, count_bytes(tensor) + goes_on * self._row_bytes
        if self._row_bytes >= NOTABLE_BYTES:
            self.batches.add(place)
