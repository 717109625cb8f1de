"""Later epochs in another order than the program's own, as with workers that live on."""

from typing import Any

import torch
from torch.utils.data import DataLoader

from autotune.workload.live import Live

_BEGUN = "_autotune_reordered"


def install(live: Live) -> None:
    """Draw some more of what each loader draws its order from, before each epoch but its first.

    Workers that live on are seeded once, where others are in each epoch, with a number from there.
    """
    iterate = DataLoader.__iter__

    def iterated(self: Any) -> Any:
        if getattr(self, _BEGUN, False):
            for _ in range(max(1, live.setup.stream)):
                torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        setattr(self, _BEGUN, True)
        return iterate(self)

    live.patch(DataLoader, "__iter__", iterated)
