"""What can be found out of a few steps that are not timed: each of these slows them down."""

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils.data._utils import fetch

from autotune.source.edits import Place
from autotune.workload import window
from autotune.workload.found import Operations
from autotune.workload.live import Live
from autotune.workload.looks.again import ComputingAgain
from autotune.workload.looks.counting import Counting
from autotune.workload.looks.denormals import Flushing, LookingForDenormals
from autotune.workload.looks.gradients import Losing
from autotune.workload.looks.lines import LookingBetween, Sampling, packed
from autotune.workload.looks.rounding import Rounding
from autotune.workload.looks.saving import Saving
from autotune.workload.looks.watch import EachOperation, Watch
from autotune.workload.places import calling_place, is_users, users_code, users_place
from autotune.workload.system.idle import seconds_until_idle
from autotune.workload.system.quiet import quietly

# To find out who starts an operation costs as much as a few of them.
_ONE_IN = 8
# Those that need no state of torch's, which a hook of a backward pass has only for itself.
_ANYWHERE = frozenset((window.LINES, window.GIVEN, window.GRADIENTS, window.RUNNING))


def watch_for(live: Live, mode: str) -> Watch | None:
    """What looks on in a window of `mode`; None where the window is timed.

    Raises:
        RuntimeError: it cannot look on from where the step has ended.
    """
    made: dict[str, Callable[[], Watch]] = {
        window.SAVED: lambda: Saving(live),
        window.LINES: lambda: Sampling(live),
        window.BETWEEN: lambda: LookingBetween(live),
        window.TRACE: lambda: Tracing(live.device()),
        window.SYNCS: Synchronising,
        window.FLOPS: Counting,
        window.GRADIENTS: Losing,
        window.ROUNDING: Rounding,
        window.OPERATIONS: Starts,
        window.DENORMALS: lambda: LookingForDenormals(live),
        window.AGAIN: lambda: ComputingAgain(live),
        window.GIVEN: lambda: Given(live),
        window.FLUSHING: lambda: Flushing(live),
        window.RUNNING: Running,
    }
    if mode not in made:
        return None
    if live.in_backward and mode not in _ANYWHERE:
        raise RuntimeError("its optimizers step inside the backward pass, where torch lets none in")
    return made[mode]()


class Given(Watch):
    """What loaders gave the program since it began, as digests (`randomness/alike.py`)."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def begin(self) -> None:
        if self._live.given is None:
            raise RuntimeError("what loaders gave was not noted")

    def end(self) -> tuple[tuple[int, int], ...]:
        """Of each batch, and of the samples that were chosen for it."""
        return tuple(self._live.given or ())


class Tracing(Watch):
    """Takes torch's profiler's trace of all steps but the first: JSON, compressed by zlib.

    What makes the trace takes up to some tenths of a second to start on a GPU, a part of it at the
    first launches: that is the first step's.
    """

    @quietly()
    def __init__(self, device: torch.device) -> None:
        kinds = torch.profiler.ProfilerActivity
        on_device = [kinds.CUDA] if torch.cuda.is_initialized() else []
        # What torch is told to be its one step is all of those here.
        self._profiler = torch.profiler.profile(
            activities=[kinds.CPU, *on_device],
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=1),
        )
        self._device = device
        self._is_warm = False

    @quietly()
    def begin(self) -> None:
        self._profiler.start()

    @quietly()
    def step(self) -> None:
        if not self._is_warm:
            self._is_warm = True
            seconds_until_idle(self._device)  # the trace is to hold no work of the step before
            self._profiler.step()

    @quietly()
    def end(self) -> bytes:
        self._profiler.stop()
        return packed(self._profiler)


class Synchronising(Watch):
    """Notes the program's lines at which the host waited for the device, as torch warns of them.

    torch does not warn of `torch.cuda.synchronize()`, nor of events that are waited for.
    """

    def __init__(self) -> None:
        self._places: Counter[Place] = Counter()
        self._stack = ExitStack()

    def begin(self) -> None:
        before = torch.cuda.get_sync_debug_mode()
        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always")
        warnings.showwarning = self._note
        torch.cuda.set_sync_debug_mode("warn")
        self._stack.callback(torch.cuda.set_sync_debug_mode, before)

    def end(self) -> tuple[tuple[Place, int], ...]:
        self._stack.close()
        return tuple(self._places.most_common())

    def _note(self, message: Warning | str, *_: Any, **__: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            place = users_place() or calling_place()
            if place is not None:
                self._places[place] += 1


class Starts(EachOperation):
    """Counts the operations that torch starts, and notes from where; a `Watch`. Small ones take
    longer to start than to compute.
    """

    def __init__(self) -> None:
        super().__init__()
        self._steps, self._count = 1, 0
        self._starters: Counter[CodeType] = Counter()

    def step(self) -> None:
        self._steps += 1

    def found(self) -> Operations:
        per_step = self._count / self._steps
        if not self._starters:
            return Operations(per_step=per_step)
        code, most = self._starters.most_common(1)[0]
        return Operations(
            per_step=per_step,
            place=Place(path=code.co_filename, line=code.co_firstlineno),
            function=code.co_name,
            share=most / self._starters.total(),
        )

    def note(self, *_: Any) -> None:
        self._count += 1
        in_backward = torch._C._current_graph_task_id() >= 0
        if self._count % _ONE_IN == 0 and not in_backward and (code := users_code()):
            self._starters[code] += 1


class Running(Watch):
    """The user's functions that the thread which trains begins, or goes on with (a generator), in
    most steps, each by the line on which it begins. What runs once an epoch is left out, as is what
    makes samples, here or in workers.
    """

    def __init__(self) -> None:
        self._steps = 1
        self._in_step = set[CodeType]()
        self._seen = Counter[CodeType]()
        self._fetching = 0
        self._before: Any = None

    def begin(self) -> None:
        self._before = sys.getprofile()
        sys.setprofile(self._note)

    def step(self) -> None:
        self._steps += 1
        self._seen.update(self._in_step)
        self._in_step.clear()

    def end(self) -> tuple[Place, ...]:
        sys.setprofile(self._before)
        self._seen.update(self._in_step)
        most = (code for code, steps in self._seen.items() if 2 * steps > self._steps)
        return tuple(
            Place(path=os.path.abspath(code.co_filename), line=code.co_firstlineno) for code in most
        )

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "fetch" and code.co_filename == fetch.__file__:
            self._fetching += 1 if event == "call" else -1
        elif event == "call" and not self._fetching and is_users(code.co_filename):
            self._in_step.add(code)
