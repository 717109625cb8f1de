"""What making samples asks torch for that is another number in each worker."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from autotune.workload.places import calling_place, is_users
from autotune.workload.samples.delivery import INITIAL_SEED, NUM_THREADS


@contextmanager
def asked_of_torch() -> Iterator[dict[str, str]]:
    """The first line of the program's that asks for each of these numbers, by its function: the
    seed that torch's random numbers began with, and how many threads it computes with, where these
    are several. Each is the same in all of a run, but for workers: they have a seed of their own in
    every epoch, and one thread.
    """
    found: dict[str, str] = {}
    places = [(torch, INITIAL_SEED), (torch.random, INITIAL_SEED)]
    places += [(torch, NUM_THREADS)] if torch.get_num_threads() > 1 else []
    own = [getattr(module, name) for module, name in places]
    for (module, name), function in zip(places, own, strict=True):
        setattr(module, name, _noting(name, function, found))
    try:
        yield found
    finally:
        for (module, name), function in zip(places, own, strict=True):
            setattr(module, name, function)


def _noting(name: str, own: Callable[[], int], found: dict[str, str]) -> Any:
    @functools.wraps(own)
    def asked() -> int:
        if (at := calling_place()) is not None and is_users(at.path):
            found.setdefault(name, f"{os.path.basename(at.path)}:{at.line}")
        return own()

    return asked
