"""Who wants to know how a run goes: every method does nothing, and `cli` overrides what it
shows.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from autotune.diagnosis import Finding
    from autotune.knobs.knob import Config
    from autotune.profiling.profile import Profile
    from autotune.trials.space import Space
    from autotune.trials.trial import Trial


class Listener:
    """Told of each stage of the flow as it happens."""

    def stage(self, name: str) -> None:
        """A new stage begins ("profiling")."""

    def profiled(self, profile: "Profile", diagnosis: "tuple[Finding, ...]") -> None:
        """The profile is there."""

    def unwritable(self, settings: "Mapping[str, Sequence[str]]") -> None:
        """What will be searched although the source cannot be given it: in words, by the reason."""

    def space(self, space: "Space") -> None:
        """What will be searched, and what not."""

    def overtime(self, spent_seconds: float, start_seconds: float, least_seconds: float) -> None:
        """Too small a budget for what was spent and for so slow a start: the search takes
        `least_seconds` at least.
        """

    def trial_begins(
        self, number: int, config: "Config", seconds_left: float, best: "Trial | None"
    ) -> None:
        """A trial is started; `seconds_left` are for trials."""

    def trial_ended(self, trial: "Trial", best: "Trial | None") -> None:
        """A trial is over."""
