"""What can be found out of a few steps that are not timed: each of these slows them down."""

import tempfile
import warnings
import zlib
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import torch

from autotune.source.edits import Place
from autotune.workload.lines import Sampling
from autotune.workload.live import Live
from autotune.workload.places import calling_place, users_place
from autotune.workload.saving import Saving
from autotune.workload.window import FLOPS, LINES, SAVED, SYNCS, TRACE


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
    if mode in (SAVED, LINES):
        return Saving(live) if mode == SAVED else Sampling(live)
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
        on_device = [kinds.CUDA] if torch.cuda.is_initialized() else []
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
