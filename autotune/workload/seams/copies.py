"""Copies from the host to the device: counted, timed, and non-blocking where the Setup says so."""

import threading
from typing import Any

import torch

from autotune.workload.live import DISCOVERY_STEPS, Live


def install(live: Live) -> None:
    """Watch `Tensor.to` and `Tensor.cuda`; only worth it, and only done, where there is a GPU."""
    for name in ("to", "cuda"):
        live.patch(torch.Tensor, name, _watched(live, name))


def _names_a_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `Tensor.to` is asked for more than another dtype."""
    given = args[0] if args else kwargs.get("device", kwargs.get("other"))
    if isinstance(given, torch.Tensor):
        return given.is_cuda
    return isinstance(given, (str, int, torch.device)) or kwargs.get("device") is not None


def _is_aside() -> bool:
    """Whether the current stream is another than the default one; `torch.cuda` looks the two up in
    Python and makes an object of each, for every copy.
    """
    device = torch._C._cuda_getDevice()
    return torch._C._cuda_getCurrentStream(device) != torch._C._cuda_getDefaultStream(device)


def _flag(args: tuple[Any, ...]) -> bool | None:
    """Whether a copy is to be non-blocking, as it is said by position: the first flag of both
    `Tensor.to` and `Tensor.cuda`; None where it is not.
    """
    return next((each for each in args[1:] if isinstance(each, bool)), None)


def _watched(live: Live, name: str) -> Any:
    original = getattr(torch.Tensor, name)
    timed = live.clock.timed("copy")

    def copy(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if torch.compiler.is_compiling() or self.is_cuda or live.elsewhere or live.pace.steps == 0:
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]
        if not torch.cuda.is_initialized() or (name == "to" and not _names_a_device(args, kwargs)):
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]
        elsewhere = threading.get_ident() != live.thread
        if elsewhere or _is_aside():  # beside the training: none of its time
            # In a backward pass another thread is one of autograd's.
            live.copied.aside |= not (elsewhere and live.in_backward)
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]
        if live.setup.non_blocking and _flag(args) is None:
            kwargs["non_blocking"] = True
        if live.pace.away:  # a validation's copies are none of a step's time
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]
        moved = timed(original, self, *args, **kwargs)
        if moved.is_cuda and torch.is_grad_enabled():
            live.copied.count += 1
            flag = _flag(args)
            waits = not (kwargs.get("non_blocking") if flag is None else flag)
            live.copied.unblocked += not waits
            # A step more than all else: a buffer that is filled again is seen when it comes again.
            if live.discovering or live.pace.steps <= DISCOVERY_STEPS:
                row = (live.pace.steps, live.forward_begun) if live.discovering else None
                live.copied.note(self, live.pace.steps, row, waits=waits)
        return moved  # type: ignore[no-any-return]

    return copy
