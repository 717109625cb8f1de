"""What a knob is: one thing that can be turned, with everything known of it in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from autotune.profiling.profile import Profile
from autotune.source.edits import Edit
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

Value = bool | int | str
Config = Mapping[str, Value]


class Semantics(StrEnum):
    """What a knob may change about the training, mildest first."""

    IDENTICAL = "identical"  # the same numbers
    EQUIVALENT = "equivalent"  # other rounding, or another random stream of the same distribution
    DIFFERENT = "different"  # another training


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The values worth trying, the program's own among them; `own` is the one it has now."""

    own: Value
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if self.own not in self.values:
            raise ValueError(f"the program's own value {self.own!r} is not among {self.values!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a value should do to the seconds of one phase, before it was ever tried here.

    `phase` is "data", "copy", "compute", "optimizer" or "launch" (the host's launching of what a
    device computes meanwhile); the factor's natural logarithm is expected at `log_mean`, give or
    take `sd`. `launching` is the same of launching, for what changes both.
    """

    phase: str
    log_mean: float = 0.0
    sd: float = 0.1
    launching: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Why a knob is left out of this search, in one sentence.

    `impossible` says that it cannot be had here or would be another training, so that asking for it
    by name does not help; otherwise it is only not worth a trial.
    """

    reason: str
    impossible: bool = False


class Knob(Protocol):
    """One file in `knobs/`.

    Its docstring has the headings What it does, When it helps, What it costs, What it changes.

    Attributes:
        name: as in `tuned.toml` and `--knob NAME=...`.
        relieves: the bottlenecks (names of `diagnosis.Bottleneck`) that make it worth a trial.
        semantics: what it may change about the training.
        admits: every value it can take, on some machine and program.
        only_beside_own: knobs beside whose other values than the program's own it means nothing.
    """

    name: str
    relieves: frozenset[str]
    semantics: Semantics
    admits: Sequence[Value]
    only_beside_own: frozenset[str] = frozenset()

    def domain(self, profile: Profile) -> Choices | Skip:
        """The values that could gain something on this machine and program, or why there are
        none.
        """

    def active(self, chosen: Config) -> bool:
        """Whether the knob means anything beside the other values chosen (prefetch needs
        workers).
        """
        return True

    def goes_along(self, profile: Profile) -> bool:
        """Whether all that is tried has its other value too: what that gains comes later than
        trials last, and what they gain would then be another share.
        """
        return False

    def expects(self, value: Value, profile: Profile) -> Expectation:
        """What `value` should do to a step, so that the likeliest is tried first.

        `num_workers` and `threads` are not asked: what they do follows from the profile.
        """
        return Expectation(phase="compute")

    def otherwise(self, value: Value, seen: Seen) -> str:
        """What is another training with `value`, in sentences, where the program was `seen` as it
        is; "" where nothing is.
        """
        return ""

    def delay_seconds(self, value: Value, profile: Profile) -> float:
        """By how much a run with `value` comes later to its usual pace: what a trial costs more."""
        return 0.0

    def contradicted(self, value: Value, profile: Profile) -> str:
        """Why `value` would be another training, by what the profile tried; "" if not."""
        return ""

    def is_another(self, value: Value, seen: Seen) -> str:
        """Why `value` is another training, by what any run was `seen` to do meanwhile; "" if it is
        not known to be.
        """
        return ""

    def doubted(self, seen: Seen) -> str:
        """Why a run that had the setting, as `read` says, does not show what it does; else ""."""
        return ""

    def is_to_blame(self, reason: str) -> bool:
        """Whether the `reason` for which a run failed says that it was this setting's doing."""
        return False

    def read(self, seen: Seen) -> Value:
        """The value that an observed run really had."""

    def apply(self, setup: Setup, value: Value) -> None:
        """Make a run have `value`."""

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        """What the user's source must say to have `value`, given what the program was seen to
        do.
        """
