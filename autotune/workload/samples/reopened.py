"""Connections that a dataset opens in each process for itself, though it comes with one into its
workers.
"""

import mmap
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch.utils.data import get_worker_info

from autotune.workload.samples.delivery import CONNECTION, Holding
from autotune.workload.samples.holdings import holdings

# Of each connection, as workers have left it after a batch; 0 where none has given any.
_ANEW, _SHARED = 1, 2


@contextmanager
def reopened(loader: Any, held: Sequence[tuple[Holding, Any]]) -> Iterator[set[str]]:
    """Paths of the connections of `held` in the place of which every worker of `loader` that gives
    a batch inside has others of its own, or none; they are known at the end.
    """
    found = set[str]()
    connections = [(each.path, value) for each, value in held if each.kind == CONNECTION]
    if not (connections and loader.num_workers and _forks(loader)):
        yield found
        return
    own = loader.collate_fn
    left = mmap.mmap(-1, len(connections))  # shared with all that are forked
    vars(loader)["collate_fn"] = _Looking(own, connections, left)  # setattr() is refused
    try:
        yield found
    finally:
        vars(loader)["collate_fn"] = own
    seen = zip(connections, left[:], strict=True)
    found.update(path for (path, _), how in seen if how == _ANEW)
    left.close()


class _Looking:
    """A `collate_fn` that looks what has become of the connections that a worker came with."""

    def __init__(self, own: Any, connections: Sequence[tuple[str, Any]], left: mmap.mmap) -> None:
        self._own, self._connections, self._left = own, connections, left

    def __call__(self, samples: Any) -> Any:
        batch = self._own(samples)
        if (info := get_worker_info()) is not None:
            has = {each.path: value for each, value in holdings(info.dataset)}
            for number, (path, value) in enumerate(self._connections):
                now = _SHARED if has.get(path) is value else _ANEW
                self._left[number] = max(self._left[number], now)
        return batch


def _forks(loader: Any) -> bool:
    context = loader.multiprocessing_context or multiprocessing
    return bool(context.get_start_method() == "fork")
