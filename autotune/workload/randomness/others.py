"""Training from other random numbers than the program's own, as another seed, another worker, or
workers that live on would have it; or with weights moved a little, to see how far it parts by that.
"""

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from torch.utils.weak import WeakIdKeyDictionary

from autotune.workload.live import Live
from autotune.workload.program.script import seed_everything
from autotune.workload.randomness.stillness import State, random_state, seed_order, set_random_state

_FETCHERS: tuple[Any, ...] = (_MapDatasetFetcher, _IterableDatasetFetcher)
_BEGUN = "_autotune_reordered"


def reseed(live: Live) -> None:
    """Draw others from the first weights on, made or loaded as part of a module, and again as each
    loader is first gone through: for the order of its samples, whatever has been seeded meanwhile.
    What was made before, as a rule the data, stays as it is.
    """
    register, iterate = nn.Module.register_parameter, DataLoader.__iter__
    restore: Any = nn.Module.__setstate__
    # A seed that no program has: one's own may well be 1.
    seed = random.Random(f"reseed {live.setup.reseed}").getrandbits(32)
    begun: set[int] = set()

    def begin() -> None:
        if not begun:
            begun.add(0)
            seed_everything(seed)

    def registered(self: Any, name: str, param: Any) -> None:
        if param is not None:
            begin()
        register(self, name, param)

    def restored(self: Any, state: Any) -> None:
        restore(self, state)
        if any(each is not None for each in self._parameters.values()):
            begin()

    def iterated(self: Any) -> Any:
        if begun and id(self) not in begun:
            begun.add(id(self))
            seed_order(self, seed)
        return iterate(self)

    live.patch(nn.Module, "register_parameter", registered)
    live.patch(nn.Module, "__setstate__", restored)
    live.patch(DataLoader, "__iter__", iterated)


def reorder(live: Live) -> None:
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


def restream(live: Live) -> None:
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
    """Those of the host: reading uses up none of a GPU's."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def nudge(module: nn.Module, share: float, nudged: WeakIdKeyDictionary) -> None:
    """Move each weight of `module` by about `share` of itself that is not among those `nudged`: a
    part that is called after the whole has weights of a graph that is still to be gone through. No
    random number of the program's is used up.

    `share` is meant for float32: finer weights move by as many units in the last place, coarser
    ones by about one, the least that they can.
    """
    last_of_float32 = torch.finfo(torch.float32).eps
    for parameter in module.parameters():
        if parameter.is_floating_point() and parameter not in nudged:
            nudged[parameter] = True
            last = torch.finfo(parameter.dtype).eps
            of_format = max(last, share * min(1.0, last / last_of_float32))
            chance = torch.Generator(parameter.device).manual_seed(0)
            with torch.no_grad():
                noise = torch.empty_like(parameter).normal_(generator=chance)
                parameter.add_(parameter * noise, alpha=of_format)
