"""Where a timed window begins and ends on a GPU that is behind the host."""

import time
from collections.abc import Callable, Sequence

import torch

# A host that has more than this share of a step to wait for at a window's end runs ahead.
AHEAD = 0.05


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
