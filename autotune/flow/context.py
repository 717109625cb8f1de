"""What every stage of the flow needs: the target, what the user asked for, and where runs start."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotune.knobs.knob import Semantics, Value
from autotune.listener import Listener
from autotune.machine import Machine
from autotune.measurement.workbench import Workbench
from autotune.workload.target import Target

# How the budget is shared: the profile at most so much, and so much kept back for judging what was
# found. Each share has a floor and a ceiling in seconds.
PROFILE_SHARE, PROFILE_SECONDS = 0.12, (4.0, 20.0)
# The first step may be waited for longer: a program may load its data for minutes.
START_SHARE, START_SECONDS = 2.0, (60.0, 600.0)
WARM_SHARE, WARM_SECONDS = 0.04, (2.0, 6.0)
TRIAL_SHARE, TRIAL_SECONDS = 0.03, (1.0, 6.0)
VERDICT_SHARE = 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user may say about a run; the defaults need no flag. Times in seconds."""

    budget_seconds: float = 300.0
    trials: int | None = None
    out: Path | None = None
    device: str | None = None
    seed: int = 0
    allow: Semantics = Semantics.EQUIVALENT
    knobs: Mapping[str, tuple[Value, ...] | None] = field(default_factory=dict)
    storage: str | None = None

    def seconds(self, share: float, limits: tuple[float, float]) -> float:
        """A share of the budget, within limits."""
        return min(max(share * self.budget_seconds, limits[0]), limits[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One target on its way through the flow. `began` is a `time.monotonic()`."""

    target: Target
    options: Options
    listener: Listener
    machine: Machine
    bench: Workbench
    began: float

    def seconds(self, share: float, limits: tuple[float, float]) -> float:
        """A share of the budget, within limits."""
        return self.options.seconds(share, limits)

    @property
    def warm_seconds(self) -> float:
        """How long a run may warm up."""
        return self.seconds(WARM_SHARE, WARM_SECONDS)

    @property
    def trials_deadline(self) -> float:
        """When what is left of the budget is needed for judging."""
        return self.began + (1 - VERDICT_SHARE) * self.options.budget_seconds

    @property
    def deadline(self) -> float:
        """When the budget is used up."""
        return self.began + self.options.budget_seconds

    @property
    def spent_seconds(self) -> float:
        """What the flow has cost so far."""
        return time.monotonic() - self.began
