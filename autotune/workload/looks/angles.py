"""Sines and cosines of angles in a short number format: large ones are rounded by whole radians,
and no error says so.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autotune.workload.found import RoundedAngle
from autotune.workload.places import users_place

_SHORT = (torch.bfloat16, torch.float16)
_WAVES = ("sin", "cos", "sin_", "cos_")


class Angles:
    """Looks for the largest angle in a short format that a sine or a cosine is given; a `Watch`."""

    def __init__(self) -> None:
        self._mode: Any = _Looking()

    def begin(self) -> None:
        """See `Watch`."""
        self._mode.__enter__()

    def step(self) -> None:
        """See `Watch`."""

    def end(self) -> RoundedAngle | None:
        """See `Watch`: None where no sine or cosine is given any."""
        self._mode.__exit__(None, None, None)
        found: RoundedAngle | None = self._mode.largest
        return found


class _Looking(TorchDispatchMode):
    """Sees each operation as it is after autocast."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        aten = torch.ops.aten
        self._waves = {getattr(aten, name).default for name in _WAVES}
        self.largest: RoundedAngle | None = None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in self._waves and args[0].dtype in _SHORT and args[0].numel():
            self._note(args[0])
        return func(*args, **(kwargs or {}))

    def _note(self, angles: torch.Tensor) -> None:
        radians = float(angles.detach().abs().max())
        if self.largest is None or radians > self.largest.radians:
            step = torch.finfo(angles.dtype).eps * radians
            self.largest = RoundedAngle(place=users_place(), radians=radians, step_radians=step)
