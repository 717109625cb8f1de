"""Training from other random numbers than the program's own, as another seed would have it."""

import random
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from autotune.workload.live import Live
from autotune.workload.program.script import seed_everything
from autotune.workload.randomness.stillness import seed_order


def install(live: Live) -> None:
    """Draw others from the first weights on, made or loaded as part of a module, and again as each
    loader is first gone through: for the order of its samples, whatever has been seeded meanwhile.
    What was made before, as a rule the data, stays as it is.
    """
    register, iterate = nn.Module.register_parameter, DataLoader.__iter__
    restore: Any = nn.Module.__setstate__
    seed = _seed_of(live.setup.reseed)
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


def _seed_of(number: int) -> int:
    """A seed that no program has: one's own may well be 1."""
    return random.Random(f"reseed {number}").getrandbits(32)
