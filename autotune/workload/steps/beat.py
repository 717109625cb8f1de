"""The beat of a run as the seams give it: a Pace times it, Steps only count it."""

from collections.abc import Callable, Iterable
from typing import Any

from autotune.workload.steps.passes import Strays


class Beat:
    """What the seams report to; this passes most of it by, as for steps that nobody times."""

    steps: int
    samples: int
    pending_samples: int
    strays: Strays
    wants_loss: bool  # the current step's loss is to be added
    away: bool  # the program is at something that is not training

    @property
    def is_left_out(self) -> bool:
        """Whether what the program does now is none of its steps' time."""
        return self.away

    def leave_training(self, since: float | None = None) -> None:
        """The program has begun something that is not training."""

    def enter_training(self) -> None:
        """The program is back at training."""

    def aside(self, look: Callable[[], Any]) -> Any:
        """Look at something, and give what was found: the time is none of the step's."""
        return look()

    def add_loss(self, loss: object, weight: float = 1.0) -> None:
        """Count `loss` towards the current step's, the mean of one with several numbers."""

    def add_overflows(self, found: Iterable[Any]) -> None:
        """A GradScaler had the optimizer step, or not: `found` says whether there was an
        overflow, one number for each device.
        """

    def step(self) -> None:
        """The leading optimizer has stepped."""
        raise NotImplementedError

    def leave_out_step(self) -> None:
        """A GradScaler has left out its step: that loss is one of its own all the same."""

    def pass_over(self) -> None:
        """What was noted since the last step was of another training loop."""

    def end(self, exit_code: int = 0) -> None:
        """The program came to its own end."""

    def look_again(self) -> None:
        """The training has changed: its next steps are looked at."""

    def end_loop(self) -> None:
        """The program has gone on to another training loop."""


class Steps(Beat):
    """Steps of a run that nobody times, and whose losses nobody reads. After so many `then` is
    called, told whether for the first time; and again so many after the training has changed.
    """

    away = wants_loss = False

    def __init__(self, *, after: int, then: Callable[[bool], None]) -> None:
        self.steps = 0
        self.samples = 0
        self.pending_samples = 0
        self.strays = Strays()  # which are not asked for
        self._after = self._at = after
        self._then = then
        self._looked = False

    def step(self) -> None:
        self.steps += 1
        self.samples += self.pending_samples
        self.pending_samples = 0
        if self.steps == self._at:
            first, self._looked = not self._looked, True
            self._then(first)

    def pass_over(self) -> None:
        self.pending_samples = 0

    def look_again(self) -> None:
        """A look that is still to come is not put off: training may change for ever."""
        if self.steps >= self._at:
            self._at = self.steps + self._after
