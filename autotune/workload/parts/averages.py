"""Running averages of an optimizer's to which nothing is added any more, since their gradients are
zero (rows of a table that are seldom drawn, units that have died). Each step leaves a share of
them, until they are denormal numbers; there most of them stay, for rounding takes them no further.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from autotune.workload.window import DENORMAL, ZEROED

# What a step leaves of an average, as torch's own optimizers call the two.
_SHARES: dict[str, Callable[[dict[str, Any]], float]] = {
    "exp_avg": lambda group: group["betas"][0],
    "momentum_buffer": lambda group: group["momentum"],
}
# How far what is left may be from that share, by rounding in each of many steps.
_ROUNDING = 1e-3
# A denormal number for some time, as a share of the smallest that is none.
_WELL_BELOW = 0.125


@dataclass(slots=True, kw_only=True)
class Average:
    """A running average of which each step leaves a share, followed from some step on."""

    average: torch.Tensor
    share: float
    since: int
    first: torch.Tensor  # what it was then
    alone: torch.Tensor  # those of its numbers to which nothing was added meanwhile
    left: dict[int, int] = field(default_factory=dict)  # how many these were by the step
    places: torch.Tensor | None = None  # where it is to be denormal
    own: torch.Tensor | None = None  # what it is there itself, while held at something else

    def follow(self, step: int) -> None:
        """Look at it after that `step`."""
        left_over = self.first * self.share ** (step - self.since)
        shrunk = (self.average - left_over).abs() <= _ROUNDING * left_over.abs()
        self.alone &= shrunk | (self.average.abs() < _least(self.average))
        self.alone &= self.average != 0
        self.left[step] = int(self.alone.sum())

    def lasting(self) -> tuple[float, int]:
        """How many of its numbers will be denormal at the least, and in how many steps.

        Of those that were left alone for half of the time, some were so for all of it; of these the
        same share is taken to be left in each further half.
        """
        steps = list(self.left)
        at, middle = steps[-1], (self.since + steps[-1]) / 2
        half = next(step for step in steps if step >= middle)
        count, horizon = self.left[at], self._horizon()
        if not count or horizon is None:
            return 0.0, 0
        if half == at:  # it was seen but once
            half, before = self.since, int((self.first != 0).sum())
        else:
            before = self.left[half]
        further = max(0.0, horizon - (at - self.since)) / (at - half)
        return count * (count / before) ** further, max(0, round(horizon - (at - self.since)))

    def choose(self, count: float) -> None:
        """Take so many of those that were left alone for those that will be denormal."""
        chance = torch.rand(self.alone.shape, generator=torch.Generator().manual_seed(0))
        self.places = self.alone & (chance < count / max(1, int(self.alone.sum())))

    def hold(self, mode: str) -> None:
        """They are denormal, or zero, as `mode` says; or what they are as the program has them."""
        if self.places is None:
            return
        if mode in (DENORMAL, ZEROED):
            self.own = self.average[self.places] if self.own is None else self.own
            held = _WELL_BELOW * _least(self.average) if mode == DENORMAL else 0.0
            self.average[self.places] = held
        elif self.own is not None:
            self.average[self.places], self.own = self.own, None

    def _horizon(self) -> float | None:
        """After how many steps with nothing added a number of the usual size is denormal."""
        size = self.average.abs()
        usual = size[~self.alone & (size > 0)]
        usual_size = float(usual.median()) if usual.numel() else float(self.first.abs().max())
        least = _least(self.average)
        return math.log(least / usual_size) / math.log(self.share) if usual_size > least else None


def averages(optimizers: Iterable[torch.optim.Optimizer], step: int) -> Iterator[Average]:
    """The running averages of `optimizers` on a CPU, from that `step` on."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                kept = optimizer.state.get(parameter, {})
                for name in _SHARES.keys() & kept.keys():
                    average, share = kept[name], float(_SHARES[name](group))
                    if _is_plain(average) and 0 < share < 1:
                        yield Average(
                            average=average,
                            share=share,
                            since=step,
                            first=average.clone(),
                            alone=average != 0,
                        )


def _least(average: torch.Tensor) -> float:
    """The smallest number of its format that is not denormal."""
    return torch.finfo(average.dtype).smallest_normal


def _is_plain(average: object) -> bool:
    return (
        isinstance(average, torch.Tensor)
        and average.device.type == "cpu"
        and average.layout is torch.strided
        and average.is_floating_point()
        and average.numel() > 0
    )
