"""What a dataset holds that worker processes cannot share with the process they come from, and
which connections it opens in each of them for itself, though it comes with one into them.
"""

import io
import mmap
import multiprocessing
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import torch
from torch.utils.data import get_worker_info

from autotune.workload.samples.delivery import (
    CONNECTION,
    FILE,
    GPU,
    LOCK,
    PIPES,
    THREADS,
    Holding,
)
from autotune.workload.samples.digests import CONTAINERS, items_of
from autotune.workload.system.attributes import replaced

# How far into a dataset it is looked, and how many objects: enough for wrapped datasets, their
# transforms and archives; what lies deeper is data.
_DEPTH = 4
_MOST_OBJECTS = 2000
_MOST_ITEMS = 20
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
# Of each connection, as workers have left it after a batch; 0 where none has given any.
_ANEW, _SHARED = 1, 2
_ENDING = ("close", "commit", "cursor", "disconnect", "fileno")  # one of these has a connection


def holdings(dataset: object) -> list[tuple[Holding, Any]]:
    """What `dataset` and the objects in it hold that processes cannot share, with the object."""
    found: list[tuple[Holding, Any]] = []
    known: set[int] = set()
    waiting: list[tuple[str, object, int]] = [("dataset", dataset, 0)]
    while waiting and len(known) < _MOST_OBJECTS:
        path, value, depth = waiting.pop(0)
        if id(value) in known:
            continue
        known.add(id(value))
        if kind := _kind(value):
            found.append((Holding(kind=kind, path=path), value))
        elif depth < _DEPTH:
            waiting += [(path + name, inner, depth + 1) for name, inner in _within(value)]
    return found


def position(file: Any) -> int | None:
    """Where the next read of an open file begins, as all processes that share it see it."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_CUR)
    except (OSError, ValueError):
        return None


def _kind(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return GPU if value.is_cuda else ""
    if isinstance(value, _LOCKS):
        return LOCK
    if isinstance(value, (Executor, threading.Thread)):
        return THREADS if _is_at_work(value) else ""
    if isinstance(value, io.IOBase):
        return FILE if _shares_position(value) else ""
    return _kind_of_talk(value)


def _kind_of_talk(value: object) -> str:
    """How `value` is talked through to who answers, "" where it is not."""
    if isinstance(value, subprocess.Popen):
        return PIPES if value.stdin or value.stdout else ""
    name = type(value).__name__.lower()
    is_called_so = name.endswith("connection")  # as PEP 249 calls them; edges of a graph are too
    can_end = any(hasattr(type(value), each) for each in _ENDING)
    talks = isinstance(value, socket.socket) or (is_called_so and can_end)
    return CONNECTION if talks else ""


def _is_at_work(value: Executor | threading.Thread) -> bool:
    """Whether it has begun: a pool that has not starts its threads wherever it is used first."""
    if isinstance(value, threading.Thread):
        return value.is_alive()
    return bool(getattr(value, "_threads", None) or getattr(value, "_processes", None))


def _shares_position(file: Any) -> bool:
    try:
        reads = not file.closed and file.readable() and file.seekable()
        return reads and position(file) is not None
    except (OSError, ValueError):
        return False


def _within(value: object) -> Iterator[tuple[str, object]]:
    """What `value` is made of: the first items of containers, and attributes of other objects."""
    if isinstance(value, (str, bytes, int, float, type(None), type, torch.Tensor, Executor)):
        return
    if isinstance(value, CONTAINERS):
        for key, item in islice(items_of(value), _MOST_ITEMS):
            yield f"[{key!r}]", item
    else:
        with suppress(Exception):  # its `__dict__` may be computed too
            yield from ((f".{name}", inner) for name, inner in list(vars(value).items()))


@contextmanager
def reopened(loader: Any, held: Sequence[tuple[Holding, Any]]) -> Iterator[set[str]]:
    """Paths of the connections of `held` in the place of which every worker of `loader` that gives
    a batch inside has others of its own, or none; they are known at the end.
    """
    found = set[str]()
    connections = [(each.path, value) for each, value in held if each.kind == CONNECTION]
    context = loader.multiprocessing_context or multiprocessing
    if not (connections and loader.num_workers and context.get_start_method() == "fork"):
        yield found
        return
    left = mmap.mmap(-1, len(connections))  # shared with all that are forked
    looking = _Looking(loader.collate_fn, connections, left)
    with replaced(loader, collate_fn=looking):
        yield found
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
