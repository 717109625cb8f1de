"""The backward pass: of whose loss, how long, and the scaling that micro-batches and fp16 need."""

import sys
from types import FrameType
from typing import Any

import torch

from autotune.workload.live import Live
from autotune.workload.places import calling_place
from autotune.workload.seams import autocast, compiling, samples
from autotune.workload.seams.optimizer import step_by_own_gradients, step_without_optimizer
from autotune.workload.seams.scaling import Scaler

_is_of_func = torch._C._functorch.is_functorch_wrapped_tensor
_scale, _step = torch.amp.GradScaler.scale, torch.amp.GradScaler.step


def install(live: Live) -> None:
    """Watch `torch.autograd.backward`, which `Tensor.backward` calls too, `torch.autograd.grad`
    and `GradScaler`.
    """
    original, other = torch.autograd.backward, _any_backward(live)
    timed, pace = live.clock.timed("backward"), live.pace
    strays = pace.strays

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if live.in_backward or not live.plain:
            other(tensors, *args, **kwargs)
            return
        live.in_backward = True
        live.backwards += 1
        strays.backwards += 1
        _note_caller(live, sys._getframe(1))
        if live.drawn:
            samples.note_training(live)
        pace.pending_samples += live.fresh_samples
        live.fresh_samples = 0
        if pace.wants_loss:
            pace.add_loss(tensors)
        try:
            timed(original, tensors, *args, **kwargs)
        finally:
            live.in_backward = False

    live.patch(torch.autograd, "backward", compiling.untraced(backward))
    _install_grad(live)
    _install_scaler(live)


def _note_caller(live: Live, caller: FrameType) -> None:
    """Note a pass that comes from where none has come from, as at an epoch's end; between it and
    this lie `Tensor.backward` and, with an older torch, what keeps the compiler out.
    """
    while caller.f_back and caller.f_globals.get("__name__", "").startswith("torch."):
        caller = caller.f_back
    at = id(caller.f_code), caller.f_lasti
    if at not in live.passes.callers:
        live.passes.callers.add(at)
        live.passes.note(calling_place())


def _any_backward(live: Live) -> Any:
    original = torch.autograd.backward
    timed, pace = live.clock.timed("backward"), live.pace
    scales = live.setup.micro_batches > 1 or live.setup.precision is not None

    def unscaled(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if live.scaler is not None:
            live.scaler.unscale()

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if live.in_backward or live.elsewhere:  # inside another: checkpointing
            original(tensors, *args, **kwargs)
            return
        live.in_backward = True
        try:
            if live.open_autocast is not None:
                autocast.close(live)
            if pace.away:
                pace.enter_training()
            _note(live, tensors)
            if scales:
                tensors = _scaled(live, tensors)
            timed(unscaled, tensors, *args, **kwargs)
        finally:
            live.in_backward = False
        live.holding = live.group_open
        if live.leader is None:
            step_without_optimizer(live)

    return backward


def _install_grad(live: Live) -> None:
    """Gradients that a loss is made of (a penalty on them, an equation in derivatives) take the
    time of a backward pass, and are none. A step without one goes by the last of them.
    """
    original = torch.autograd.grad
    timed = live.clock.timed("backward")

    def grad(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if live.in_backward or live.elsewhere or torch.compiler.is_dynamo_compiling():
            return original(outputs, *args, **kwargs)
        if live.pace.wants_loss:
            live.last_derived = _scalar(outputs)
        found = timed(original, outputs, *args, **kwargs)
        if live.leader is None and not kwargs.get("create_graph"):
            step_by_own_gradients(live, _scalar(outputs))
        return found

    live.patch(torch.autograd, "grad", grad)


def _scalar(outputs: Any) -> torch.Tensor | None:
    """What gradients are taken of, where that is one number, and not inside `torch.func`."""
    one = outputs[0] if isinstance(outputs, (list, tuple)) and len(outputs) == 1 else outputs
    if not isinstance(one, torch.Tensor) or one.numel() != 1 or _is_of_func(one):
        return None
    return one.detach()


def _note(live: Live, tensors: Any) -> None:
    samples.note_batch(live)
    if live.discovering:
        live.note_place("backward")
        live.passes.note(live.places.get("backward"))
    elif live.passes.looking:
        live.passes.note(calling_place())
    else:
        _note_caller(live, sys._getframe(3))
    live.backwards += 1
    live.pace.strays.backwards += 1
    loss = tensors
    if live.unscaled_loss is not None:
        loss, live.unscaled_loss = live.unscaled_loss, None
    if live.pace.wants_loss:
        live.pace.add_loss(loss, live.share)


def _scaled(live: Live, tensors: Any) -> Any:
    """The loss as micro-batching and fp16 need it; anything but one scalar loss is left alone."""
    if not isinstance(tensors, torch.Tensor) or tensors.numel() != 1:
        return tensors
    if live.setup.micro_batches > 1:
        tensors = tensors * live.share
    if live.setup.precision and live.setup.precision.scaled and not live.scaler_seen:
        live.scaler = live.scaler or Scaler(live)
        tensors = live.scaler.scaled(tensors)
    return tensors


def _install_scaler(live: Live) -> None:
    """The user's GradScaler multiplies the loss: remember that itself. Any may leave a step out."""

    def scale(self: Any, outputs: Any) -> Any:
        if isinstance(outputs, torch.Tensor) and self.is_enabled():
            live.unscaled_loss = outputs
            live.scaler_seen, live.plain = True, False
        return _scale(self, outputs)

    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = live.pace.steps
        outcome = _step(self, optimizer, *args, **kwargs)
        if self.is_enabled() and (live.leader is None or live.leader() is optimizer):
            if live.scaler is None and live.pace.steps == before:
                live.skipped += 1
                live.pace.leave_out_step()
            state = self._per_optimizer_states[id(optimizer)]
            live.pace.add_overflows(state["found_inf_per_device"].values())
        return outcome

    live.patch(torch.amp.GradScaler, "scale", scale)
    live.patch(torch.amp.GradScaler, "step", step)
