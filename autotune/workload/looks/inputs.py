"""What data lose as they are rounded to a short number format before a product: columns of large
numbers that differ little (years, kelvins).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from autotune.workload.found import RoundedInput
from autotune.workload.looks.watch import SHORT
from autotune.workload.places import users_place

_LONG = (torch.float32, torch.float64)
_ENOUGH = 8  # rows, to tell how those of a column differ
_CONSTANT = 1e-5  # what differs by less, as a share of its size, does so by chance of computing
_NEXT_TO_NOTHING = 0.01  # what differs by less, as a share of what others differ by, tells little
# Of standard errors: batches further apart come in order, and do not tell how all of them differ.
# The pixels and the time steps of a sample are alike: only samples count.
_IN_ORDER = 4.0


class Inputs:
    """Sees operations before each, and when steps end; `found` is the column that is rounded
    furthest beside what it differs by.
    """

    def __init__(self) -> None:
        self._before: list[torch.Tensor] = []  # means of the step before, in their order
        self._now: list[torch.Tensor] = []
        self.found: RoundedInput | None = None

    def step(self) -> None:
        """What follows is another step's."""
        self._before, self._now = self._now, []

    def note(self, kind: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """`kind` is about to be carried out with what is `given`: with data."""
        if kind is not torch.ops.aten._to_copy or named.get("dtype") not in SHORT:
            return
        numbers = given[0].detach()
        if numbers.dtype not in _LONG or isinstance(given[0], nn.Parameter):
            return
        if not (numbers.ndim and numbers.numel()):
            return
        # Of more dimensions, columns are the first after the samples (channels), or the last, if
        # that is not the width of an image.
        columns = (-1,) if numbers.ndim < 3 else (1, -1)
        if numbers.ndim > 3 and numbers.shape[-1] >= min(numbers.shape[1:-1]):
            columns = (1,)
        for column in columns:
            rows = numbers.movedim(column, -1).float()
            rows = rows.reshape(-1, rows.shape[-1])
            if len(rows) >= _ENOUGH and bool(rows.isfinite().all()):
                self._note_columns(rows, named["dtype"], samples=numbers.shape[0])

    def _note_columns(self, rows: torch.Tensor, short: torch.dtype, samples: int) -> None:
        spread, size = rows.std(0), rows.square().mean(0).sqrt()
        mean, number = rows.mean(0), len(self._now)
        self._now.append(mean)
        # In the first step what an earlier one has left, a carried state, is not known as that.
        before = self._before[number] if number < len(self._before) else None
        if before is None or before.shape != mean.shape:
            return
        tells = (spread > _CONSTANT * size) & (spread > _NEXT_TO_NOTHING * spread.max())
        tells &= (mean - before).abs() <= _IN_ORDER * spread / math.sqrt(samples)
        lost = (rows.to(short).float() - rows).std(0) / spread
        lost[lost.isnan()] = 1.0  # all of it, where the format has no such number
        noise = torch.where(tells, lost, 0)
        at = int(noise.argmax())
        if noise[at] > (self.found.noise if self.found else 0):
            step = torch.finfo(short).eps * 2.0 ** math.floor(math.log2(size[at]))
            self.found = RoundedInput(
                place=users_place(),
                size=float(size[at]),
                spread=float(spread[at]),
                step=step,
                noise=float(noise[at]),
            )
