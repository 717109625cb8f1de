"""What models give: where, whether it is kept, and in which number format it goes on."""

from collections import OrderedDict
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from autotune.source.edits import OutputPlace
from autotune.workload.loading import batches
from autotune.workload.places import calling_expression

_OF_IMAGES = len("NCHW")


def in_float32(outcome: Any) -> Any:
    """`outcome` with float32 for bf16, for a loss that is computed from it on a CPU.

    Autocast computes torch's own losses in float32 there, but leaves sums and exponentials in bf16,
    which on a GPU it does not. Accelerate's `convert_outputs_to_fp32` does the same.
    """
    if isinstance(outcome, torch.Tensor):
        return _wide(outcome)
    # An object of a library's, a cache of keys and values, is not built anew for this.
    containers = (tuple, list, dict)
    return pytree.tree_map(_wide, outcome, is_leaf=lambda part: not isinstance(part, containers))


def _wide(leaf: Any) -> Any:
    is_narrow = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bfloat16
    return leaf.float() if is_narrow else leaf


def output_place(outcome: Any) -> OutputPlace | None:
    """The user's line that called a module, which gave `outcome`; None where no source shows it."""
    caller = calling_expression()
    if caller is None:
        return None
    place, callee = caller
    return OutputPlace(
        path=place.path,
        line=place.line,
        callee=callee,
        tensors=_has_wide(outcome),
        single=isinstance(outcome, torch.Tensor),
        images=any(each.ndim >= _OF_IMAGES for each in batches.tensors(outcome)),
    )


def _has_wide(outcome: Any) -> bool:
    """Whether float32 tensors are in it, where a patch looks for them."""
    if isinstance(outcome, torch.Tensor):
        return outcome.dtype == torch.float32
    if type(outcome) is dict or isinstance(outcome, OrderedDict):
        return any(map(_has_wide, outcome.values()))
    named = isinstance(outcome, tuple) and hasattr(outcome, "_fields")
    return (named or type(outcome) in (list, tuple)) and any(map(_has_wide, outcome))


class Outputs:
    """What modules gave in the first steps: from which lines they were called, and whether some of
    its memory outlived the next step: the next replay of a CUDA graph overwrites it.

    A name that is bound anew in each step keeps it no longer than that.
    """

    def __init__(self) -> None:
        self.kept = False
        self.places: set[OutputPlace] = set()
        # Of the step that is on its way, of the one before it, and of those before that.
        self._new: list[StorageWeakRef] = []
        self._last: list[StorageWeakRef] = []
        self._old: list[StorageWeakRef] = []

    def note(self, module: torch.nn.Module, given: Any, outcome: Any, *, trains: bool) -> None:
        """Remember `outcome`, which `module` gave; what it was given, and weights, are not new."""
        weights = list(module.parameters())
        place = output_place(outcome) if weights else None  # a loss has none
        if place is not None:
            self.places.add(place)
        if not trains:
            return
        own = {batches.address(each) for each in (*batches.tensors(given), *weights)}
        for each in batches.tensors(outcome):
            if batches.address(each) not in (None, *own):
                self._new.append(StorageWeakRef(each.untyped_storage()))

    def end_step(self) -> None:
        """The outputs of the next step follow."""
        self._old, self._last, self._new = [*self._old, *self._last], self._new, []

    def look(self) -> None:
        """A step begins: what is left of those before the last one is kept."""
        if self._old:
            self.kept = self.kept or not all(each.expired() for each in self._old)
            self._old = []
