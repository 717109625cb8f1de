"""Holding a loader's random numbers still, so that what it delivers in two runs can be compared.

What a worker draws for a sample and what the training process draws for it are different numbers
of the same distribution. Here every batch is read from the same state of the random streams,
wherever it is read.
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from autotune.workload.program.script import seed_everything
from autotune.workload.system.attributes import replaced

_fetch: Any = _MapDatasetFetcher.fetch
_END: Any = object()


State = tuple[Any, torch.Tensor, Any]


def random_state() -> State:
    """Where Python's, torch's and numpy's streams are; numpy's only where the program uses it."""
    numpy: Any = sys.modules.get("numpy")
    numpys = numpy.random.get_state() if numpy is not None else None
    return random.getstate(), torch.get_rng_state(), numpys


def set_random_state(state: State) -> None:
    """Go on from there."""
    python, own, numpys = state
    random.setstate(python)
    torch.set_rng_state(own)
    if numpys is not None:
        numpy: Any = sys.modules["numpy"]
        numpy.random.set_state(numpys)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """What is drawn inside is not used up."""
    before = random_state()
    try:
        yield
    finally:
        set_random_state(before)


class StillWorker:
    """A loader's `worker_init_fn` that calls its `own` and has the worker read as `still` does; may
    travel to other processes.
    """

    def __init__(self, own: Callable[[int], None] | None, seed: int) -> None:
        self._own = own
        self._seed = seed

    def __call__(self, worker: int) -> None:
        """Set up the worker of this number, in its process."""
        if self._own is not None:
            self._own(worker)
        seed_everything(self._seed)  # what iterable datasets read from
        _MapDatasetFetcher.fetch = seeded_fetch(self._seed)  # type: ignore[method-assign]


@contextmanager
def still(loader: "DataLoader[Any]", seed: int) -> Iterator[None]:
    """Read batches of `loader` from random streams that start from `seed`: each batch of a
    map-style dataset, and each worker of an iterable one. Iterators have to be made inside.
    """
    with ExitStack() as stack:
        own = loader.worker_init_fn
        stack.enter_context(replaced(loader, worker_init_fn=StillWorker(own, seed)))
        if loader.num_workers == 0 and not isinstance(loader.dataset, IterableDataset):
            stack.enter_context(replaced(_MapDatasetFetcher, fetch=seeded_fetch(seed)))
            stack.enter_context(by_one_thread())
        yield


@contextmanager
def by_one_thread() -> Iterator[None]:
    """As workers read: another number of threads rounds sums differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def seed_order(loader: "DataLoader[Any]", seed: int) -> None:
    """Let the next iteration of `loader` begin from `seed`, with its sampler's own generators."""
    seed_everything(seed)
    batch_sampler = loader.batch_sampler
    for owner in (loader, loader.sampler, batch_sampler, getattr(batch_sampler, "sampler", None)):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)


def ordered(loader: Any, seed: int) -> AbstractContextManager[None]:
    """Let iterations of `loader` choose their samples by random numbers that start from `seed`, and
    that nothing else draws from.
    """
    name = "batch_sampler" if loader._auto_collation else "sampler"
    order = Order(vars(loader)[name], lambda: seed_order(loader, seed))
    return replaced(loader, **{name: order})


class Order:
    """What a sampler chooses, the same from each `iter()` on. With workers torch asks twice for an
    iterator, and the second would go on in the random numbers where the first has left them.
    """

    def __init__(self, sampler: Any, seed: Callable[[], None]) -> None:
        self._sampler = sampler
        self._seed = seed

    def __iter__(self) -> Iterator[Any]:
        chosen = own = None
        while True:
            others = random_state()
            try:
                if chosen is None or own is None:
                    self._seed()
                    chosen = iter(self._sampler)
                else:
                    set_random_state(own)
                given = next(chosen, _END)
                own = random_state()
            finally:
                set_random_state(others)
            if given is _END:
                return
            yield given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


def seeded_fetch(seed: int) -> Any:
    """How a map-style dataset is asked for a batch, each time from random streams that start from
    `seed`; what was drawn from them before goes on as it was.
    """

    def fetch(self: Any, index: Any) -> Any:
        with kept_random_state():  # a sampler draws from the same streams
            seed_everything(seed)
            return _fetch(self, index)

    return fetch
