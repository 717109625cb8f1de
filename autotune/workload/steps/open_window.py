"""A window that is open: what its steps have taken so far."""

from dataclasses import dataclass, field

from autotune.workload.conversation import RunWindow
from autotune.workload.window import AS_IS

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
