"""What models give: where, whether it is kept, and in which number format it goes on."""

import inspect
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from autotune.source.edits import OutputPlace
from autotune.workload import batches
from autotune.workload.places import calling_expression


def in_float32(outcome: Any) -> Any:
    """`outcome` with float32 for bf16, for a loss that is computed from it on a CPU.

    Autocast computes torch's own losses in float32 there, but leaves sums and exponentials in bf16,
    which on a GPU it does not. Accelerate's `convert_outputs_to_fp32` does the same.
    """
    if isinstance(outcome, torch.Tensor):
        return _wide(outcome)
    return pytree.tree_map(_wide, outcome, is_leaf=_is_no_container)


def _is_no_container(part: Any) -> bool:
    """An object of a library's, a cache of keys and values, is not built anew for this."""
    return not isinstance(part, (tuple, list, dict))


def _wide(leaf: Any) -> Any:
    is_narrow = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bfloat16
    return leaf.float() if is_narrow else leaf


UNSURE = -1  # as a number of parts: the call also gives something else, or may


def output_place(module: torch.nn.Module, outcome: Any) -> OutputPlace | None:
    """The user's line that called `module`, which gave `outcome`; None where the source does not
    show the call.
    """
    caller = calling_expression()
    if caller is None:
        return None
    place, callee = caller
    several = type(outcome) in (tuple, list)
    parts = list(outcome) if several else [outcome]
    count = len(parts) if several else 0
    if not parts or not all(map(_is_float32, parts)) or _asks_for_its_mode(module):
        count = UNSURE
    return OutputPlace(path=place.path, line=place.line, callee=callee, parts=count)


def _is_float32(part: Any) -> bool:
    return isinstance(part, torch.Tensor) and part.dtype == torch.float32


def _asks_for_its_mode(module: torch.nn.Module) -> bool:
    """Whether a forward pass of it, that is not torch's own, may give something else where it is
    evaluated, from the same line.
    """
    kinds = {type(each) for each in module.modules()}
    own = (kind for kind in kinds if not kind.__module__.startswith("torch."))
    return any("training" in _names_of(kind.forward) for kind in own)


def _names_of(function: Any) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_names if code else ()


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
        """Remember `outcome`, which `module` gave; what it was given, and its own weights, are not
        new.
        """
        weights = list(module.parameters())
        place = output_place(module, outcome) if weights else None  # a loss has none
        if place is not None:
            self.places.add(place)
        if not trains:
            return
        own = {_place(each) for each in (*batches.tensors(given), *weights)}
        for each in batches.tensors(outcome):
            if _place(each) not in (None, *own):
                self._new.append(StorageWeakRef(each.untyped_storage()))

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
