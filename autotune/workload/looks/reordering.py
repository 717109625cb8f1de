"""What models give with their weights channels last: code that goes by the order in memory itself
(`as_strided`, a kernel of one's own) then reads other numbers, and no error says so.
"""

from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from autotune.workload.found import Reordered
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.randomness.nudging import nudge

# Of each weight: some units in the last place of float32, as another order of summing moves sums.
_NUDGE = 1e-6


class Reordering:
    """Computes the last batch again with the weights of each model in the other order; a `Watch`,
    and the last of its run, whose weights are then others.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._given: dict[nn.Module, tuple[Any, Any]] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        """See `Watch`."""
        for module in list(self._live.models.trained):
            self._handles.append(module.register_forward_pre_hook(self._note, with_kwargs=True))

    def step(self) -> None:
        """See `Watch`."""

    def end(self) -> Reordered | None:
        """See `Watch`; None where no model could be computed again."""
        for handle in self._handles:
            handle.remove()
        self._live.elsewhere = True  # none of these calls is the program's
        try:
            found = [self._compared(module, *given) for module, given in self._given.items()]
        finally:
            self._live.elsewhere = False
        known = [each for each in found if each is not None]
        return max(known, key=lambda each: each.apart, default=None)

    def _note(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.is_grad_enabled():
            self._given.setdefault(module, (args, kwargs))

    @torch.no_grad()
    def _compared(self, module: nn.Module, args: Any, kwargs: Any) -> Reordered | None:
        """What `module` gives beside what it gives in the other order, as far as it evaluates what
        it was given; None of one in a short format.
        """
        if any(each.dtype.itemsize < torch.float32.itemsize for each in module.parameters()):
            return None
        for part in module.modules():
            part.training = False
        order: Any = module.to
        try:
            own, again = (_outputs(module(*args, **kwargs)) for _ in range(2))
            order(memory_format=torch.channels_last)
            other = _outputs(module(*args, **kwargs))
            order(memory_format=torch.contiguous_format)
            nudge(module, _NUDGE, WeakIdKeyDictionary())
            moved = _outputs(module(*args, **kwargs))
        except Exception:  # noqa: BLE001 - the program's own: it may only train, or view its batch
            return None
        apart, *by_chance = (_apart(own, each) for each in (other, again, moved))
        if apart is None or None in by_chance:
            return None
        return Reordered(apart=apart, by_chance=max(each for each in by_chance if each is not None))


def _outputs(outcome: object) -> list[torch.Tensor]:
    found = batches.tensors(outcome)
    return [each.detach().float().clone() for each in found if each.is_floating_point()]


def _apart(own: list[torch.Tensor], others: list[torch.Tensor]) -> float | None:
    """How far they lie apart, as a share of what they are (root mean squares), at the most; None
    where they are not as many numbers.
    """
    if not own or [each.shape for each in own] != [each.shape for each in others]:
        return None
    return max(
        float((one - other).norm() / one.norm().clamp(min=torch.finfo(one.dtype).tiny))
        for one, other in zip(own, others, strict=True)
    )
