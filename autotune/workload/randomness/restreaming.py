"""Reading samples with other random numbers than the program's own, as other workers would."""

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from autotune.workload.live import Live
from autotune.workload.randomness.streams import State, random_state, set_random_state

_FETCHERS: tuple[Any, ...] = (_MapDatasetFetcher, _IterableDatasetFetcher)


def install(live: Live) -> None:
    """Have whatever reads batches, here and in workers, draw from random numbers of its own.

    As with workers, reading then uses up none of the training's.
    """
    for fetcher in _FETCHERS:
        live.patch(fetcher, "fetch", _apart(fetcher.fetch, live.setup.stream))


def _apart(fetch: Callable[..., Any], stream: int) -> Callable[..., Any]:
    states: dict[int, State] = {}  # of each process: a worker begins with its own

    def drawn(self: Any, indices: Any) -> Any:
        before, process = random_state(), os.getpid()
        if process in states:
            set_random_state(states[process])
        else:
            _seed((torch.initial_seed() + stream) % 2**32)
        try:
            return fetch(self, indices)
        finally:
            states[process] = random_state()
            set_random_state(before)

    return drawn


def _seed(seed: int) -> None:
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
