"""The outermost module call: where a model is found, set up, timed, and run under autocast.

Modules are found by watching `nn.Module.__call__` during the first steps only. A module that was
found carries its own hook in `_compiled_call_impl`, the attribute that `nn.Module` asks first:
inner modules cost nothing, and torch.compile never traces it.
"""

import os
from typing import Any

import torch
from torch import nn

from autotune.workload import batches
from autotune.workload.live import DISCOVERY_STEPS, Live


def install(live: Live) -> None:
    """Find the outermost modules that are called in the first steps, and hook each of them."""
    own_call = nn.Module.__call__
    process = os.getpid()

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_traced():  # a compiled module may have kept this hook
            return own_call(self, *args, **kwargs)
        nn.Module.__call__ = own_call  # type: ignore[method-assign]  # inner modules, and compilers, see torch's own
        try:
            scripting = torch.jit.is_scripting()  # type: ignore[attr-defined]
            if os.getpid() == process and not _is_hooked(self) and not scripting:
                hook(live, self)
            return own_call(self, *args, **kwargs)
        finally:
            if live.pace.steps < DISCOVERY_STEPS and live.restore:
                nn.Module.__call__ = __call__  # type: ignore[method-assign]

    live.patch(nn.Module, "__call__", __call__)


def _is_hooked(module: nn.Module) -> bool:
    return hasattr(vars(module).get("_compiled_call_impl"), "autotune_inner")


def hook(live: Live, module: nn.Module) -> None:
    """Set up `module` if it is one to train, and time its calls from now on.

    One that is called before it is trained (to evaluate it, or while it is frozen) is hooked anew
    at its first training call.
    """
    ready = _is_to_train(module)
    if ready:
        set_up(live, module)
    trainable = _is_trainable(module)
    inner = vars(module).get("_compiled_call_impl") or module._call_impl

    def timed(*args: Any, **kwargs: Any) -> Any:
        if _is_traced():
            return inner(*args, **kwargs)
        if not torch.is_grad_enabled():
            return _call_without_gradients(live, module, inner, args, kwargs)
        if not ready and _is_to_train(module):
            live.unhook(module)
            hook(live, module)
            return vars(module)["_compiled_call_impl"](*args, **kwargs)
        if not trainable:
            return _timed_call(live, inner, args, kwargs)
        return _training_call(live, module, inner, args, kwargs)

    timed.autotune_inner = inner  # type: ignore[attr-defined]
    live.patch(module, "_compiled_call_impl", timed)


def _is_traced() -> bool:
    return torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]


def _is_trainable(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _is_to_train(module: nn.Module) -> bool:
    return module.training and torch.is_grad_enabled() and _is_trainable(module)


def set_up(live: Live, module: nn.Module) -> None:
    """Change `module` as the Setup says, once."""
    if module in live.trained:
        return
    for change in live.setup.model:
        change(module)
    live.trained.add(module)


def _timed_call(live: Live, inner: Any, args: Any, kwargs: Any) -> Any:
    live.clock.begin()
    try:
        return inner(*args, **kwargs)
    finally:
        live.clock.end("forward")


def _call_without_gradients(
    live: Live, module: nn.Module, inner: Any, args: Any, kwargs: Any
) -> Any:
    """A trained model is being evaluated; any other belongs to the step: a teacher, an encoder."""
    if module in live.trained and not module.training:
        live.leave_training()
    if live.pace.away:
        return inner(*args, **kwargs)
    return _timed_call(live, inner, args, kwargs)


def _training_call(live: Live, module: nn.Module, inner: Any, args: Any, kwargs: Any) -> Any:
    live.pace.enter_training()
    found = batches.first_tensor(args, kwargs)
    if found is not None:
        live.forward_samples = found.shape[0] if found.dim() else 1
        if len(live.shapes) < 256:  # more distinct shapes than that need no counting
            live.shapes.add(tuple(found.shape))
    if live.discovering:
        live.note_place("forward")
        live.note_model(module)
    _open_autocast(live)
    return _timed_call(live, inner, args, kwargs)


def _open_autocast(live: Live) -> None:
    """Autocast from here to the backward pass, so that the loss is computed under it as well."""
    precision = live.setup.precision
    if precision and live.open_autocast is None:
        live.open_autocast = torch.autocast(
            precision.device_type, dtype=getattr(torch, precision.dtype)
        )
        live.open_autocast.__enter__()
    if live.discovering:
        kind = live.device().type
        live.autocast = (
            str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
            if torch.is_autocast_enabled(kind)
            else ""
        )


def close_autocast(live: Live) -> None:
    """Leave the autocast that a training forward opened."""
    if live.open_autocast is not None:
        live.open_autocast.__exit__(None, None, None)
        live.open_autocast = None
