"""Numbers too small for the whole precision of their format, which a CPU computes many times
slower: those that operations give, and those that the optimizer's averages will come to.
"""

from typing import Any

import torch

from autotune.workload.found import Denormals
from autotune.workload.live import Live
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.watch import EachOperation
from autotune.workload.parts.averages import averages


class LookingForDenormals(EachOperation):
    """A `Watch` that counts what operations give, but for an optimizer's: what its averages cost is
    timed. The first of a run begins to follow these, from window to window of the program as it is,
    and the second says what will become of them.
    """

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self._count = self._denormal = 0

    @torch.no_grad()
    def end(self) -> Denormals:
        self.stop()
        results = self._denormal / max(1, self._count)
        step = self._live.pace.steps
        if self._live.averages is None:
            optimizers = [known() for known in self._live.optimizers]
            there = (each for each in optimizers if each is not None)
            self._live.averages = list(averages(there, step))
            return Denormals(results=results)
        count, coming, after_steps = 0, 0.0, 0
        for each in self._live.averages:
            if step not in each.left:
                each.follow(step)
            lasting, steps = each.lasting()
            each.choose(lasting)
            count, coming = count + each.average.numel(), coming + lasting
            after_steps = max(after_steps, steps if lasting >= 1 else 0)
        share = coming / count if coming >= 1 else 0.0
        return Denormals(results=results, coming=share, after_steps=after_steps)

    def note_result(self, result: Any) -> None:
        for each in () if self._live.stepping else tensors(result):
            if each.is_floating_point() and each.layout is torch.strided:
                least = torch.finfo(each.dtype).smallest_normal
                self._count += each.numel()
                self._denormal += int(((each != 0) & (each.abs() < least)).sum())
