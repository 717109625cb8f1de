"""Training from other random numbers than the program's own, as another seed would have it."""

from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from autotune.workload.live import Live
from autotune.workload.script import seed_everything
from autotune.workload.stillness import seed_order


def install(live: Live) -> None:
    """Draw others from the first weights on, and again as each loader is first gone through: for
    the order of its samples, whatever has been seeded meanwhile. What was made before, as a rule
    the data, stays as it is.
    """
    register, iterate, seed = nn.Module.register_parameter, DataLoader.__iter__, live.setup.reseed
    begun: set[int] = set()

    def registered(self: Any, name: str, param: Any) -> None:
        if not begun and param is not None:
            begun.add(0)
            seed_everything(seed)
        register(self, name, param)

    def iterated(self: Any) -> Any:
        if begun and id(self) not in begun:
            begun.add(id(self))
            seed_order(self, seed)
        return iterate(self)

    live.patch(nn.Module, "register_parameter", registered)
    live.patch(DataLoader, "__iter__", iterated)
