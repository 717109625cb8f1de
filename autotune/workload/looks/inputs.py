"""What data lose as they are rounded to a short number format before a product: columns of large
numbers that differ little (years, kelvins), and such as grow from step to step (hours since the
beginning).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from autotune.workload.found import RoundedInput
from autotune.workload.places import users_place

_SHORT = (torch.bfloat16, torch.float16)
_LONG = (torch.float32, torch.float64)
_ENOUGH = 8  # rows, to tell how those of a column differ
_CONSTANT = 1e-5  # what differs by less, as a share of its size, does so by chance of computing
_NEXT_TO_NOTHING = 0.01  # what differs by less, as a share of what others differ by, tells little
_STEADY = 2.0  # what grows steadily grows by no more than so many times as much as before


@dataclass(frozen=True, slots=True)
class _Columns:
    """Of each column its lowest and highest number, their mean, by how much that has grown since
    the step before, and whether it has so for two steps.
    """

    low: torch.Tensor
    high: torch.Tensor
    mean: torch.Tensor
    grown: torch.Tensor
    steadily: torch.Tensor


class Inputs:
    """Sees operations before each, and when steps end; `found` is the column that is rounded
    furthest beside what it differs by, `growing` the one that grows by most beside that.
    """

    def __init__(self) -> None:
        self._copy = torch.ops.aten._to_copy
        self._before: list[_Columns] = []  # of the step before, in the order that they came in
        self._now: list[_Columns] = []
        # Whether what a step before has left would be known by now to be learnt: a carried state.
        self._is_known = False
        self.found: RoundedInput | None = None
        self.growing: RoundedInput | None = None

    def step(self) -> None:
        """What follows is another step's."""
        self._before, self._now, self._is_known = self._now, [], True

    def note(self, kind: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """`kind` is about to be carried out with what is `given`: with data."""
        if kind is not self._copy or named.get("dtype") not in _SHORT:
            return
        numbers = given[0].detach()
        if numbers.dtype not in _LONG or isinstance(given[0], nn.Parameter) or not numbers.ndim:
            return
        channels_first = numbers.ndim > 3
        rows = (numbers.movedim(1, -1) if channels_first else numbers).float()
        rows = rows.reshape(-1, rows.shape[-1])
        if len(rows) >= _ENOUGH and bool(rows.isfinite().all()):
            self._note_columns(rows, named["dtype"])

    def _note_columns(self, rows: torch.Tensor, short: torch.dtype) -> None:
        columns = self._columns(rows)
        self._now.append(columns)
        spread, size = rows.std(0), rows.square().mean(0).sqrt()
        step = torch.finfo(short).eps * size.log2().floor().exp2()
        differs = spread > _CONSTANT * size
        tells = differs & (spread > _NEXT_TO_NOTHING * spread.max())
        noise = torch.where(tells, (rows.to(short).float() - rows).std(0) / spread, 0)

        def described(at: int, grows: float = 0.0) -> RoundedInput:
            names = ("size", "spread", "step", "noise", "mean")
            all_of_them = (size, spread, step, noise, columns.mean)
            numbers = {name: float(each[at]) for name, each in zip(names, all_of_them, strict=True)}
            return RoundedInput(place=users_place(), grows=grows, **numbers)

        at = int(noise.argmax())
        if self._is_known and noise[at] > (self.found.noise if self.found else 0):
            self.found = described(at)
        grown = torch.where(columns.steadily & tells, columns.grown.abs() / spread, 0)
        at = int(grown.argmax())
        if grown[at] > (abs(self.growing.grows) / self.growing.spread if self.growing else 0):
            self.growing = described(at, float(columns.grown[at]))

    def _columns(self, rows: torch.Tensor) -> _Columns:
        low, high, mean = rows.amin(0), rows.amax(0), rows.mean(0)
        grown, steadily = torch.zeros_like(mean), torch.zeros_like(mean, dtype=torch.bool)
        if len(self._now) < len(self._before):
            before = self._before[len(self._now)]
            if before.mean.shape == mean.shape:
                beyond = (low > before.high) | (high < before.low)
                grown = torch.where(beyond, mean - before.mean, 0)
                ratio = grown / before.grown
                steadily = (ratio > 1 / _STEADY) & (ratio < _STEADY)
        return _Columns(low, high, mean, grown, steadily)
