"""The optimizer: built as the Setup says, its step timed, and the beat that all is counted by."""

import functools
import weakref
from typing import Any

import torch
from torch import nn

from autotune.workload.live import Live
from autotune.workload.parts.optimizer import set_implementation, weights_of
from autotune.workload.places import calling_place, users_place
from autotune.workload.program.framework import is_installed
from autotune.workload.seams import autocast, model, samples
from autotune.workload.steps import leading

# Backward passes without any optimizer step before a backward pass itself counts as a step (manual
# updates).
MANUAL_UPDATES_AFTER = 20
# After so many, those that are gone are forgotten.
_SWEEP = 50


def install(live: Live) -> None:
    """Watch every optimizer that is built, `zero_grad`, gradient clipping and schedulers."""
    _install_build(live)
    _install_zero_grad(live)
    if live.setup.micro_batches > 1:
        _install_skipping(live)


def _install_build(live: Live) -> None:
    build, unpickle = torch.optim.Optimizer.__init__, torch.optim.Optimizer.__setstate__

    def __init__(self: Any, params: Any, defaults: dict[str, Any]) -> None:
        build(self, params, defaults)
        self._autotune_built_at = live.pace.steps
        self._autotune_place = place = calling_place(building=self)
        self._autotune_caller = users_place() if place and is_installed(place.path) else None
        wanted: dict[str, Any] = {
            name: value for name, value in live.setup.optimizer.items() if name in self.defaults
        }
        if wanted:
            set_implementation(self, **wanted)
        adopt(self)
        if leading.comes_next(live, self):
            live.discover_again()
            _look_again(live)

    def __setstate__(self: Any, state: dict[str, Any]) -> None:
        unpickle(self, state)
        adopt(self)

    def adopt(optimizer: Any) -> None:
        if "step" in vars(optimizer):
            return  # known already: load_state_dict() goes through __setstate__ too
        if len(live.optimizers) % _SWEEP == 0:
            live.optimizers = [known for known in live.optimizers if known() is not None]
        live.optimizers.append(weakref.ref(optimizer))
        optimizer.step = _timed_step(live, optimizer)

    live.patch(torch.optim.Optimizer, "__init__", __init__)
    live.patch(torch.optim.Optimizer, "__setstate__", __setstate__)


def _timed_step(live: Live, optimizer: Any) -> Any:
    """A step that is timed; the class is asked for its own each time, which a program may have
    replaced since. It does not keep the optimizer and its state alive.
    """
    other, known = _any_step(live), weakref.ref(optimizer)
    timed, pace = live.clock.timed("optimizer"), live.pace

    def step(*args: Any, **kwargs: Any) -> Any:
        self: Any = known()
        kind: Any = type(self)
        if args or kwargs or live.stepping or not live.plain or live.leader() is not self:  # type: ignore[misc]
            return other(self, *args, **kwargs)
        live.stepping = True
        try:
            outcome = timed(kind.step, self)
        finally:
            live.stepping = False
        live.passes.count(pace.steps, live.backwards)
        live.draw_began, live.others = None, 0
        if not pace.pending_samples:
            live.note_undrawn()
        pace.step()
        return outcome

    def of_the_class(_self: Any, *args: Any, **kwargs: Any) -> Any:
        return step(*args, **kwargs)

    step.__wrapped__ = type(optimizer).step  # type: ignore[attr-defined]
    step.__func__ = of_the_class  # type: ignore[attr-defined]  # a scheduler asks for it
    return step


def _any_step(live: Live) -> Any:
    timed = live.clock.timed("optimizer")

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if live.stepping or live.elsewhere or _is_idle(live, self, args or kwargs):
            return type(self).step(self, *args, **kwargs)
        autocast.close(live)  # gradients need not come from a backward pass
        if live.group_open:
            return None  # more micro-batches of this batch are to come
        if live.rehearsal is not None:
            return _rehearse_step(live, self)
        if args or kwargs:
            args, kwargs = _with_timed_closure(live, args, kwargs)
        elif live.backwards == live.backwards_before:
            _note_own_gradients(live, self)
        if live.leader is None or live.discovering:
            closure = bool((args and callable(args[0])) or kwargs.get("closure"))
            leading.lead(live, self, closure=closure)
        update = type(self).step
        if live.scaler is not None:
            update = live.scaler.step
        live.stepping = True
        try:
            outcome = timed(update, self, *args, **kwargs)
        finally:
            live.stepping = False
        live.holding = False
        if leading.has_stepped(live, self):
            _look_again(live)
            live.end_step()
        return outcome

    return step


def _look_again(live: Live) -> None:
    """The next steps are looked at as the first ones were."""
    for name in ("__call__", "_replicate_for_data_parallel", "zero_grad"):
        live.unhook(nn.Module, name)
    live.unhook(torch.optim.Optimizer, "zero_grad")
    model.install(live)
    _install_zero_grad(live)


def _is_idle(live: Live, optimizer: Any, closure: Any) -> bool:
    """Whether the first step of `optimizer` has no gradients to go by: programs make one to have it
    come before a scheduler's, or begin their loop with it.
    """
    if closure or live.leader or live.backwards or optimizer in live.idle:
        return False
    if _has_data(live) and any(each.grad is not None for each in weights_of(optimizer)):
        return False
    live.idle.add(optimizer)
    return True


def _has_data(live: Live) -> bool:
    """Whether a batch was drawn, or a model called, that no backward pass has followed so far."""
    return bool(live.drawn) or (live.leading_loader is None and live.forward_samples > 0)


def _note_own_gradients(live: Live, optimizer: Any) -> None:
    """A step whose gradients came from no backward pass (`torch.func`, `torch.autograd.grad`)
    trains on what was drawn for it, or on what its model was last given; its loss is what the last
    of them are of.
    """
    if live.leader is not None and live.leader() is not optimizer:
        return
    loss, live.last_derived = live.last_derived, None
    if live.pace.wants_loss and loss is not None:
        live.pace.add_loss(loss)
    if _has_data(live):
        live.own_gradients = True
        samples.note_batch(live)


def _with_timed_closure(
    live: Live, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a step whose closure, if there is one, counts as forward but for its
    backward pass: it is not the optimizer that is slow where the closure is.
    """
    closure = args[0] if args else kwargs.get("closure")
    if not callable(closure):
        return args, kwargs
    timed = functools.partial(live.clock.timed("forward"), closure)
    return ((timed, *args[1:]), kwargs) if args else (args, {**kwargs, "closure": timed})


def _rehearse_step(live: Live, optimizer: Any) -> None:
    """Gradients are looked at in the place of a step, and weights stay what they are."""
    assert live.rehearsal is not None
    live.rehearsal.take(optimizer)
    if live.scaler is not None:
        live.scaler.tell()
    live.holding = False
    live.end_step()


def step_without_optimizer(live: Live) -> None:
    """A program that updates its weights by hand: every backward pass is a step."""
    if not live.optimizers and live.backwards >= MANUAL_UPDATES_AFTER:
        live.end_step()


def step_by_own_gradients(live: Live, loss: torch.Tensor | None) -> None:
    """A program that takes a loss's gradients itself too (`autograd.grad`): each call is a step."""
    if loss is None or live.optimizers or live.backwards or not _has_data(live):
        return
    live.derivations += 1
    if live.derivations >= MANUAL_UPDATES_AFTER:
        live.own_gradients = True
        if live.pace.wants_loss:
            live.pace.add_loss(loss)
        samples.note_batch(live)
        live.end_step()


def _install_zero_grad(live: Live) -> None:
    for owner in (torch.optim.Optimizer, nn.Module):
        live.patch(owner, "zero_grad", _zero_grad(live, owner))


def _zero_grad(live: Live, owner: Any) -> Any:
    original, wanted, precision = owner.zero_grad, live.setup.set_to_none, live.setup.precision
    scales = precision is not None and precision.scaled
    needed = wanted is not None or live.setup.micro_batches > 1 or scales

    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        if live.discovering:
            live.note_place("zero_grad")
            live.set_to_none = set_to_none if wanted is None else wanted
        elif not needed:
            live.unhook(owner, "zero_grad")
        if live.holding:
            return
        original(self, set_to_none if wanted is None else wanted)
        if live.scaler is not None:
            live.scaler.tell()  # the step may have been left out

    return zero_grad


def _install_skipping(live: Live) -> None:
    """Gradients of a batch that is not complete are not clipped, and a scheduler that is stepped
    per batch steps with the optimizer.
    """

    def skipping(original: Any, instead: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return instead() if live.group_open else original(*args, **kwargs)

        return call

    for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
        live.patch(nn.utils, name, skipping(getattr(nn.utils, name), lambda: torch.zeros(())))
    root: type[Any] = torch.optim.lr_scheduler.LRScheduler
    for kind in (root, *_all_subclasses(root)):
        if "step" in vars(kind):
            live.patch(kind, "step", skipping(kind.step, lambda: None))


def _all_subclasses(kind: type[Any]) -> set[type[Any]]:
    return {sub for child in kind.__subclasses__() for sub in (child, *_all_subclasses(child))}
