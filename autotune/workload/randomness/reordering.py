"""Later epochs in another order than the program's own, as with workers that live on."""

import weakref
from typing import Any

import torch
from torch.utils.data import DataLoader

from autotune.workload.live import Live


def install(live: Live) -> None:
    """Draw some more of what each loader draws its order from, before each epoch but its first.

    Workers that live on are seeded once, where others are in each epoch, with a number from there.
    """
    iterate, begun = DataLoader.__iter__, weakref.WeakSet[Any]()

    def iterated(self: Any) -> Any:
        if self in begun:
            for _ in range(max(1, live.setup.stream)):
                torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        begun.add(self)
        return iterate(self)

    live.patch(DataLoader, "__iter__", iterated)
