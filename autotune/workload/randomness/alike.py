"""A training whose loaders read alike whoever reads: in this process or in workers, each epoch has
the same order, and each batch is made from the same random numbers by one thread. None of the
training's own are used up.

What such runs are given can be told apart batch by batch, by the samples that were chosen for each
and by what was made of them, and what they make of it loss by loss.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.randomness.stillness import (
    Order,
    by_one_thread,
    kept_random_state,
    seed_order,
    seeded_fetch,
)

_SEED = 0


def install(live: Live) -> None:
    """Have all loaders read so from now on, those of forked workers as well, and keep a digest of
    each batch that the program is given.
    """
    reading = _Reading()
    live.patch(_MapDatasetFetcher, "fetch", _counted(seeded_fetch(_SEED), reading))
    _install_order(live, reading)
    _install_next(live, reading)


@dataclass(slots=True)
class _Reading:
    """How many fetches this process is in: a dataset may have loaders of its own, and what these
    choose follows from the random numbers that its batch is made from.
    """

    depth: int = 0


def _counted(fetch: Callable[..., Any], reading: _Reading) -> Callable[..., Any]:
    def fetched(self: Any, index: Any) -> Any:
        reading.depth += 1
        try:
            with by_one_thread():
                return fetch(self, index)
        finally:
            reading.depth -= 1

    return fetched


def _install_order(live: Live, reading: _Reading) -> None:
    begin, again = _BaseDataLoaderIter.__init__, _BaseDataLoaderIter._reset
    epochs: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def begun(self: Any, loader: Any, *, next_epoch: bool) -> None:
        epoch = epochs[loader] = epochs.get(loader, 0) + next_epoch
        order = iter(Order(self._index_sampler, lambda: seed_order(loader, epoch)))
        self._autotune_chosen = deque[int]()
        self._sampler_iter = _noting(order, self._autotune_chosen)

    def began(self: Any, loader: Any) -> None:
        if reading.depth:
            begin(self, loader)
            return
        with kept_random_state():
            begin(self, loader)
        begun(self, loader, next_epoch=True)

    def began_again(self: Any, loader: Any, first_iter: bool = False) -> None:
        if reading.depth:
            again(self, loader, first_iter)
            return
        with kept_random_state():
            again(self, loader, first_iter)
        begun(self, loader, next_epoch=not first_iter)

    live.patch(_BaseDataLoaderIter, "__init__", began)
    live.patch(_BaseDataLoaderIter, "_reset", began_again)


def _install_next(live: Live, reading: _Reading) -> None:
    given = live.given = []
    following = _BaseDataLoaderIter.__next__

    def given_next(self: Any) -> Any:
        batch = following(self)
        chosen = vars(self).get("_autotune_chosen")  # those that workers are still to read as well
        samples = chosen.popleft() if chosen else 0
        if not (live.elsewhere or reading.depth):
            given.append((hash(batches.digest(batch)), samples))
        return batch

    live.patch(_BaseDataLoaderIter, "__next__", given_next)


def _noting(order: Iterator[Any], chosen: deque[int]) -> Iterator[Any]:
    """`order`, with a digest of what it has `chosen` for each batch that is still to be given."""
    for index in order:
        chosen.append(hash(batches.digest(index)))
        yield index
