"""Batches copied to the device one ahead of the training, on a stream of their own."""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

from autotune.workload.loading import batches


class CopiedAhead:
    """Draws a batch more than it is asked for, and has it copied while the training computes.

    The stream that trains waits for the copy of its batch and for nothing else; what a batch lies
    in is not given to the next one before that stream is through with it (`Tensor.record_stream`).
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = _side(device)
        self._waiting: deque[tuple[Any, torch.cuda.Event]] = deque()
        self._over = False

    def next(self, draw: Callable[[], Any]) -> Any:
        """The next batch, on the device; `draw` gives those that follow it.

        Raises:
            StopIteration: there is none.
        """
        while len(self._waiting) < 2 and not self._over:
            try:
                batch = draw()
            except StopIteration:
                self._over = True
            else:
                self._waiting.append(self._sent(batch))
        if not self._waiting:
            raise StopIteration
        batch, arrived = self._waiting.popleft()
        training = torch.cuda.current_stream(self._device)
        training.wait_event(arrived)
        for each in batches.tensors(batch):
            if each.device.type == self._device.type:
                each.record_stream(training)
        return batch

    def over(self, source: Iterator[Any]) -> Iterator[Any]:
        """All that `source` gives, each on the device."""
        with suppress(StopIteration):
            while True:
                yield self.next(source.__next__)

    def _sent(self, batch: Any) -> tuple[Any, torch.cuda.Event]:
        with torch.cuda.stream(self._side):
            moved = batches.to_device(batch, self._device, non_blocking=True)
            return moved, self._side.record_event()


@functools.cache
def _side(device: torch.device) -> torch.cuda.Stream:
    """The stream for copies: memory that is free again stays with the stream that it was for."""
    return torch.cuda.Stream(device)
