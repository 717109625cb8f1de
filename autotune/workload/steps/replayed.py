"""One batch that is given again and again, as it was drawn."""

import copy
from typing import Any

import torch

from autotune.workload.loading import batches, containers


def copied(batch: Any) -> Any:
    """What `batch` is now, whatever the program makes of it; itself where it cannot be copied."""
    try:
        return containers.changed(batch, _copied)
    except Exception:  # noqa: BLE001 - containers of the program's own, which did not ask
        return batch


class Replayed:
    """Gives a batch that the program may change, time after time: in new containers, and in new
    memory where the program was seen to write into what it was given before. On `device`, or where
    it was drawn.
    """

    def __init__(self, batch: Any, device: torch.device | None = None) -> None:
        self._device = device
        self._drawn, self._together = containers.taken_apart(batch)
        moved = batch if device is None else batches.to_device(batch, device)
        own = zip(self._drawn, containers.taken_apart(moved)[0], strict=True)
        self._given = [_copied(drawn) if given is drawn else given for drawn, given in own]
        self._versions = list(map(_version, self._given))
        self._written: set[int] = set()

    def of(self, batch: Any) -> "Replayed":
        """The same of another batch."""
        return Replayed(batch, self._device)

    def next(self) -> Any:
        """The batch."""
        leaves = map(self._leaf, range(len(self._given)))
        return self._together(list(leaves))

    def _leaf(self, number: int) -> Any:
        given = self._given[number]
        if _version(given) != self._versions[number]:
            drawn = self._drawn[number]
            moved = drawn if self._device is None else drawn.to(self._device)
            given = self._given[number] = _copied(drawn) if moved is drawn else moved
            self._versions[number] = _version(given)
            self._written.add(number)
        if number in self._written or not isinstance(given, torch.Tensor):
            return _copied(given)
        return given.detach().requires_grad_(given.requires_grad)  # its version is that of `given`


def _version(leaf: Any) -> int:
    """How often a tensor's memory was written to."""
    return leaf._version if isinstance(leaf, torch.Tensor) else 0


def _copied(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        try:
            return copy.copy(leaf)  # a library's batch, which is a container to nobody else
        except Exception:  # noqa: BLE001 - not every object can be copied
            return leaf
    made = leaf.detach().clone()
    if leaf.layout == torch.strided and leaf.is_pinned():
        made = made.pin_memory()
    return made.requires_grad_(leaf.requires_grad)
