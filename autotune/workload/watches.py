"""What can be found out of a few steps that are not timed: each of these slows them down."""

import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import torch

from autotune.source.edits import Place
from autotune.workload.live import Live
from autotune.workload.places import calling_place, users_place
from autotune.workload.window import FLOPS, SAVED, SYNCS, TRACE, Saved


class Watch(Protocol):
    """Something that looks on from the end of one step to the end of a later one."""

    def begin(self) -> None:
        """Begin to look on.

        Raises:
            RuntimeError: this torch or this device does not offer it.
        """

    def end(self) -> object:
        """Stop, and give what was found."""


def watch_for(live: Live, mode: str) -> Watch | None:
    """What looks on in a window of `mode`; None where the window is timed."""
    if mode == SAVED:
        return Saving(lambda: _parameters(live))
    made: dict[str, type[Tracing | Synchronising | Counting]] = {
        TRACE: Tracing,
        SYNCS: Synchronising,
        FLOPS: Counting,
    }
    return made[mode]() if mode in made else None


class Tracing:
    """Takes torch's profiler's trace: JSON, compressed by zlib."""

    def __init__(self) -> None:
        kinds = torch.profiler.ProfilerActivity
        on_device = [kinds.CUDA] if torch.cuda.is_available() else []
        self._profiler = torch.profiler.profile(activities=[kinds.CPU, *on_device])

    def begin(self) -> None:
        """See `Watch`."""
        self._profiler.start()

    def end(self) -> bytes:
        """See `Watch`."""
        self._profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            self._profiler.export_chrome_trace(str(path))
            return zlib.compress(path.read_bytes(), 1)


class Synchronising:
    """Notes the program's lines at which the host waited for the device, as torch warns of them.

    torch does not warn of `torch.cuda.synchronize()`, nor of events that are waited for.
    """

    def __init__(self) -> None:
        self._places: Counter[Place] = Counter()
        self._stack = ExitStack()

    def begin(self) -> None:
        """See `Watch`."""
        before = torch.cuda.get_sync_debug_mode()
        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always")
        warnings.showwarning = self._note
        torch.cuda.set_sync_debug_mode("warn")
        self._stack.callback(torch.cuda.set_sync_debug_mode, before)

    def end(self) -> tuple[tuple[Place, int], ...]:
        """See `Watch`."""
        self._stack.close()
        return tuple(self._places.most_common())

    def _note(self, message: Warning | str, *_: Any, **__: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            place = users_place() or calling_place()
            if place is not None:
                self._places[place] += 1


class Counting:
    """Counts floating point operations of matrix products, convolutions and attention."""

    def __init__(self) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        self._counter = FlopCounterMode(display=False)

    def begin(self) -> None:
        """See `Watch`."""
        self._counter.__enter__()

    def end(self) -> int:
        """See `Watch`."""
        self._counter.__exit__(None, None, None)
        return int(self._counter.get_total_flops())


class Saving:
    """Measures what is kept from forward for backward: every tensor that autograd saves, once."""

    def __init__(self, parameters: Callable[[], Iterator[torch.Tensor]]) -> None:
        self._parameters = parameters
        self._own: set[int] = set()
        self._users: Counter[int] = Counter()
        self._held = 0
        self._most = 0
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def begin(self) -> None:
        """See `Watch`."""
        self._own = {each.untyped_storage().data_ptr() for each in self._parameters()}
        self._hooks.__enter__()

    def end(self) -> Saved:
        """See `Watch`."""
        self._hooks.__exit__()
        gradients = (each.grad for each in self._parameters() if each.grad is not None)
        return Saved(
            activation_bytes=self._most,
            gradient_bytes=sum(each.numel() * each.element_size() for each in gradients),
        )

    def _pack(self, tensor: torch.Tensor) -> "_Kept":
        storage = tensor.untyped_storage()
        place = storage.data_ptr()
        size = 0 if place in self._own else storage.nbytes()
        if not self._users[place]:
            self._held += size
            self._most = max(self._most, self._held)
        self._users[place] += 1
        return _Kept(tensor, lambda: self._release(place, size))

    def _release(self, place: int, size: int) -> None:
        self._users[place] -= 1
        if not self._users[place]:
            self._held -= size


class _Kept:
    """A saved tensor; says when backward has no more need of it."""

    def __init__(self, tensor: torch.Tensor, released: Callable[[], None]) -> None:
        self.tensor = tensor
        self._released = released

    def __del__(self) -> None:
        self._released()


def _unpack(kept: _Kept) -> torch.Tensor:
    return kept.tensor


def _parameters(live: Live) -> Iterator[torch.Tensor]:
    for module in live.trained:
        yield from module.parameters()
