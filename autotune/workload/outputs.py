"""Whether a program keeps what its model gives: the next replay of a CUDA graph overwrites it."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autotune.workload import batches


class Outputs:
    """The memory that modules gave in the first steps; `kept` where some outlived the next step.

    A name that is bound anew in each step keeps it no longer than that.
    """

    def __init__(self) -> None:
        self.kept = False
        # Of the step that is on its way, of the one before it, and of those before that.
        self._new: list[StorageWeakRef] = []
        self._last: list[StorageWeakRef] = []
        self._old: list[StorageWeakRef] = []

    def note(self, module: torch.nn.Module, given: Any, outcome: Any) -> Any:
        """`outcome`, which `module` gave; what it was given, and its own weights, are not new."""
        own = {_place(each) for each in (*batches.tensors(given), *module.parameters())}
        for each in batches.tensors(outcome):
            if _place(each) not in (None, *own):
                self._new.append(StorageWeakRef(each.untyped_storage()))
        return outcome

    def end_step(self) -> None:
        """The outputs of the next step follow."""
        self._old, self._last, self._new = [*self._old, *self._last], self._new, []

    def look(self) -> None:
        """A step begins: what is left of those before the last one is kept."""
        if self._old:
            self.kept = self.kept or not all(each.expired() for each in self._old)
            self._old = []


def _place(tensor: torch.Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a sparse one has several
        return None
