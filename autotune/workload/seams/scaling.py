"""The loss scaled as fp16 needs, and gradients never: what a program does with them between
backward and step, it does with gradients at their own size.

Behind each scaled backward pass the gradients of all optimizers are unscaled, and scaled before the
next one. Scales are powers of two, so that nothing is rounded; what has overflowed stays infinite.
"""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch.amp.grad_scaler import OptState

from autotune.workload.live import Live
from autotune.workload.parts.optimizer import weights_of

_scale = torch.amp.GradScaler.scale


class Scaler:
    """A GradScaler for whatever optimizers a run has."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._scaler = torch.amp.GradScaler(live.device().type)
        self._scaled = False  # gradients are, from the loss on until they are unscaled
        self._overflows: dict[torch.device, torch.Tensor] = {}  # whether they did, by device
        self._told = True  # and the scale was updated by it
        self._old: dict[int, int] = {}  # gradients that were stepped on before: id to version

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """`loss` as its backward pass needs it; gradients that it is added to are made to match."""
        if not self._scaled:
            self._scale_gradients()
            self._scaled = True
        outcome: torch.Tensor = _scale(self._scaler, loss)
        return outcome

    def unscale(self) -> None:
        """After a backward pass, as `GradScaler.unscale_` does; the step then does not do it.

        What was stepped on before and has got nothing since may have overflowed then: the model of
        another fold.
        """
        if self._live.group_open:
            return
        if not self._scaled:  # a loss that is no scalar: what overflowed before is gone, if told
            self._overflows = {} if self._told else self._overflows
            return
        self._scaled = False
        fresh: dict[bool, list[torch.Tensor]] = defaultdict(list)
        for each in self._with_gradients():
            fresh[self._old.get(id(each.grad)) != _version(each)].append(each)
        states = self._scaler._per_optimizer_states
        for parameters in (fresh[False], fresh[True]):
            held: Any = SimpleNamespace(param_groups=[{"params": parameters}])  # all that is read
            states.clear()
            self._scaler.unscale_(held)
            self._overflows = states[id(held)]["found_inf_per_device"]
        self._told = not self._overflows

    def tell(self) -> None:
        """The scale hears of the last gradients, once: they were stepped on, or are gone."""
        if not self._told:
            self._scaler.update()
            self._told = True

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """A step that is left out where gradients have overflowed, however often it is taken on
        them; the program's own where nothing was scaled.
        """
        if not self._overflows:
            return type(optimizer).step(optimizer, *args, **kwargs)
        state = self._scaler._per_optimizer_states[id(optimizer)]
        state["stage"], state["found_inf_per_device"] = OptState.UNSCALED, self._overflows
        outcome = self._scaler.step(optimizer, *args, **kwargs)
        self.tell()
        return outcome

    def _scale_gradients(self) -> None:
        parameters = self._with_gradients()
        if not parameters:
            self.tell()
        gradients: dict[torch.device, list[torch.Tensor]] = defaultdict(list)
        for each in parameters:
            assert each.grad is not None
            gradients[each.device].append(each.grad)
        with torch.no_grad():
            for device, ours in gradients.items():
                torch._foreach_mul_(ours, _scale(self._scaler, torch.ones((), device=device)))
        self._old = {id(each.grad): _version(each) for each in parameters} if self._told else {}

    def _with_gradients(self) -> list[torch.Tensor]:
        """The parameters of all optimizers that have gradients, one for each of these."""
        known = (each() for each in self._live.optimizers)
        weights = (weight for each in known if each is not None for weight in weights_of(each))
        return list({id(each.grad): each for each in weights if each.grad is not None}.values())


def _version(parameter: torch.Tensor) -> int:
    assert parameter.grad is not None
    return parameter.grad._version
