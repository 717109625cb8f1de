"""Epochs cut short, so that a run soon comes to what follows them: validation, checkpoints, the
program's own end.
"""

from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import (
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from autotune.workload.live import Live


def install(live: Live) -> None:
    """Have every DataLoader, of whatever it is for, end after the batches that the Setup has for
    it, and say that it is no longer: schedules and frameworks go by that.
    """
    most, own_length = live.setup.epoch_batches, DataLoader.__len__

    def __len__(self: Any) -> int:
        return min(own_length(self), most)

    live.patch(DataLoader, "__len__", __len__)
    for kind in (_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter):
        live.patch(kind, "_next_data", _ending_after(most, kind._next_data))


def _ending_after(most: int, own: Any) -> Any:
    def _next_data(self: Any) -> Any:
        if self._num_yielded >= most:
            raise StopIteration
        return own(self)

    return _next_data
