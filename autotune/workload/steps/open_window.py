"""A window that is open: what its steps have taken so far, and where it begins and ends on a GPU
that is behind the host.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from autotune.workload.conversation import RunWindow
from autotune.workload.window import AS_IS

# A host that has more than this share of a step to wait for at a window's end runs ahead.
AHEAD = 0.05
# A window that was asked for by its length has so many steps where another led it in: else half of
# what is run would not be timed where steps are long.
LED_STEPS = 3
# One in which more than so many times its length went by in validation makes do with this share of
# it: where a program does little else, timing it would use up all that there is time for.
MOST_AWAY, LEAST_TIMED = 2.0, 0.25


@dataclass(slots=True, kw_only=True)
class OpenWindow:
    """Counts from a step's end on, until `command` has its seconds and its steps; part of its
    seconds where validation takes most of them.
    """

    command: RunWindow | None  # what it was asked for by; None before anything was
    samples: int  # of the run until it began
    led: bool = False  # a step led it in, that was not timed
    # Of each step since, without what was validated between two of them.
    step_seconds: list[float] = field(default_factory=list)
    validation_seconds: float = 0.0
    validations: int = 0
    gradless_seconds: float = 0.0  # part of the steps: a model was called without gradients
    _seconds: float = 0.0
    _asked: float = 0.0
    _fewest: int = 1

    def __post_init__(self) -> None:
        if self.command is not None:
            led = LED_STEPS if self.led and self.command.seconds else 0
            self._asked, self._fewest = self.command.seconds, max(self.command.steps, led)

    @property
    def mode(self) -> str:
        """How the loop is to be fed."""
        return self.command.mode if self.command else AS_IS

    def add(self, seconds: float) -> bool:
        """A step has ended that took so long; whether the window has what it was asked for."""
        self.step_seconds.append(seconds)
        self._seconds += seconds
        away = self.validation_seconds > MOST_AWAY * self._asked
        asked = LEAST_TIMED * self._asked if away else self._asked
        return self._seconds >= asked and len(self.step_seconds) >= self._fewest

    def add_to_last(self, seconds: float) -> bool:
        """The last step took so much longer; whether there is one."""
        if self.step_seconds:
            self.step_seconds[-1] += seconds
            self._seconds += seconds
        return bool(self.step_seconds)

    def leave_out(self, seconds: float) -> float:
        """So many of a step's seconds were a validation's; give them."""
        self.validation_seconds += seconds
        self.validations += 1
        return seconds


class Edges:
    """The edges of windows, at the same place of the device's work where the host runs ahead of it.

    A host that does not wait for its steps' results draws a batch while the device computes the one
    before. A window that began on an idle device would have the first of these waits in the open,
    once a window, though the training has it once. So a step leads in that is not timed, and the
    time from its end to the last one's is the device's, by two events. Where a window's end shows
    that the host waits for each step anyway, none leads in.
    """

    def __init__(self, device: Callable[[], torch.device]) -> None:
        self._which = device  # as far as is known: at a program's end its model may be gone
        self.device = torch.device("cpu")  # that trained when the open window began
        self._ahead: float | None = None  # the most that a device was behind, as a share of a step
        self._mark = 0.0
        self._event: torch.cuda.Event | None = None

    def leads_in(self) -> bool:
        """Whether a step is to go by before a window begins. The last window is done with."""
        self._event, self.device = None, self._which()
        return self.device.type == "cuda" and (self._ahead is None or self._ahead > AHEAD)

    def begin(self) -> None:
        """The step that leads in has ended, for the host; the moment."""
        self._event = self._recorded()
        self._mark = time.perf_counter()

    def end(self, steps: Sequence[float], waited: float) -> tuple[float, ...]:
        """The device is idle, and what it was waited for is counted to the last of the steps: the
        seconds of each step as the device lived them, in sum.
        """
        seconds = sum(steps)
        if seconds and self.device.type == "cuda":
            self._ahead = max(self._ahead or 0.0, waited * len(steps) / seconds)
        if self._event is None:
            return tuple(steps)
        event = self._recorded()
        event.synchronize()
        began_late = time.perf_counter() - self._mark - self._event.elapsed_time(event) / 1000
        # What the host was ahead at the end is not the last step's alone; that goes as well.
        hosts = (*steps[:-1], max(0.0, steps[-1] - waited)) if steps else ()
        whole = max(0.0, seconds - max(0.0, began_late))
        return tuple(each * whole / sum(hosts) for each in hosts) if sum(hosts) else tuple(steps)

    def _recorded(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event
