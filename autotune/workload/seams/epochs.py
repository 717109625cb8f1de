"""Epochs, and a framework's intervals, cut short, so that a run soon comes to what follows them:
validation, checkpoints, the program's own end.
"""

import functools
import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from autotune.workload.live import Live
from autotune.workload.system.imports import AfterImport


def install(live: Live) -> None:
    """Have every DataLoader, of whatever it is for, end after the batches that the Setup has for
    it, and say that it is no longer: schedules and frameworks go by that. One that goes through its
    data from the first sample to the last has batches from all along it: what comes late in a file
    comes soon, too.
    """
    most, own_length = live.setup.epoch_batches, DataLoader.__len__

    def __len__(self: Any) -> int:
        return min(own_length(self), most)

    live.patch(DataLoader, "__len__", __len__)
    change = functools.partial(_shorten_intervals, most)
    finder = AfterImport({"transformers.trainer_callback": change})
    live.patch(sys, "meta_path", [finder, *sys.meta_path])
    for kind in (_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter):
        live.patch(kind, "_next_data", _ending_after(most, kind._next_data))
    for name in ("__init__", "_reset"):
        live.patch(_BaseDataLoaderIter, name, _spreading(most, getattr(_BaseDataLoaderIter, name)))


def _shorten_intervals(most: int, module: Any) -> None:
    """Have Hugging Face's Trainer evaluate and save after so many steps at the most."""
    state = module.TrainerState
    compute = getattr(state, "compute_steps", None)  # of older versions the arguments themselves
    if compute is None:
        return

    def compute_steps(self: Any, *args: Any, **kwargs: Any) -> None:
        compute(self, *args, **kwargs)
        for kind in ("eval", "save"):
            steps = getattr(self, f"{kind}_steps", None)
            if steps is not None:
                setattr(self, f"{kind}_steps", min(steps, most))

    state.compute_steps = compute_steps


def _ending_after(most: int, own: Any) -> Any:
    def _next_data(self: Any) -> Any:
        if self._num_yielded >= most:
            raise StopIteration
        return own(self)

    return _next_data


def _spreading(most: int, own: Any) -> Any:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        sampler = self._index_sampler
        if type(sampler) is BatchSampler and type(sampler.sampler) is SequentialSampler:
            self._sampler_iter = _spread(sampler, most)

    return begin


def _spread(sampler: BatchSampler, most: int) -> Iterator[list[int]]:
    """As many batches of `sampler`, which takes samples in order, from its first to its last."""
    samples, size, batches = len(sampler.sampler), sampler.batch_size, len(sampler)  # type: ignore[arg-type]
    chosen = {at * (batches - 1) // max(1, most - 1) for at in range(most)} if batches else ()
    for at in sorted(chosen):
        yield list(range(at * size, min((at + 1) * size, samples)))
