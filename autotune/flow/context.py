"""What every stage of the flow needs: the target, what the user asked for, and where runs start."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotune.durations import parse_duration
from autotune.errors import UsageError
from autotune.knobs import by_name, check
from autotune.knobs.config import parse_semantics
from autotune.knobs.knob import Semantics, Value
from autotune.listener import Listener
from autotune.machine import Machine
from autotune.measurement.processes.device_lock import DeviceLock
from autotune.measurement.ratios import PAIR_SCATTER
from autotune.measurement.readings.faults import scatter_of
from autotune.measurement.workbench import Workbench
from autotune.sizes import parse_size
from autotune.trials.keeping import PROFILE, parse_sampler
from autotune.workload.program.target import Target
from autotune.workload.window import AS_IS, Window

# How the budget is shared: the profile at most so much, and so much kept back for judging what was
# found. Each share has a floor and a ceiling in seconds.
PROFILE_SHARE, PROFILE_SECONDS = 0.12, (4.0, 20.0)
PROFILE_OF_LARGE = 1 / 15  # the share of a budget that is larger than most
# The first step may be waited for as long as all may take: a program may load its data for minutes.
START_SHARE, START_SECONDS = 1.0, (60.0, 600.0)
# A first epoch that fills a cache of files is gone through once, if it takes no longer.
FILL_SHARE, FILL_SECONDS = 0.25, (10.0, 300.0)
# One that fills a cache in memory is gone through by each run, if it takes no longer.
MEMORY_SHARE, MEMORY_SECONDS = 0.06, (5.0, 60.0)
WARM_SHARE, WARM_SECONDS = 0.04, (2.0, 6.0)
TRIAL_SHARE, TRIAL_SECONDS = 0.03, (1.0, 6.0)
VERDICT_SHARE = 0.45
# Of which a trial that still compiles may have so much.
COMPILING_SHARE = 0.25
# Where processes of the program differ so much by the memory that they take anew (`faults`), one
# pair of them tells nothing: more is kept, for a second pair. Chosen: in two minutes, 18 s more.
SCATTERED, SCATTERED_SHARE = 1.5 * PAIR_SCATTER, 0.6
MOST_SEED = 2**32 - 1  # NumPy takes none beyond
# What one percent of expected gain may take: all of a budget is worth 20 %.
PATIENCE_SHARE = 0.05


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
    sampler: str = PROFILE
    patience_seconds: float | None = None
    memory_limit_bytes: int | None = None
    energy: bool = False
    fresh: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MOST_SEED:
            raise UsageError(f"seed is {self.seed}", f"choose a whole number up to {MOST_SEED}")

    @classmethod
    def said(
        cls,
        *,
        budget: str | float,
        allow: str = "equivalent",
        sampler: str = PROFILE,
        patience: str | float | None = None,
        memory_limit: str | int | None = None,
        **others: Any,
    ) -> "Options":
        """Options as people say them, `others` as they are.

        Raises:
            UsageError: one of them cannot be taken.
        """
        for name, values in others.get("knobs", {}).items():
            knob = by_name(name)
            for value in values or ():
                check(knob, value)
        return cls(
            budget_seconds=parse_duration(budget),
            allow=parse_semantics(allow),
            sampler=parse_sampler(sampler),
            patience_seconds=None if patience is None else parse_duration(patience),
            memory_limit_bytes=None if memory_limit is None else parse_size(memory_limit),
            **others,
        )

    def seconds(self, share: float, limits: tuple[float, float]) -> float:
        """A share of the budget, within limits."""
        return min(max(share * self.budget_seconds, limits[0]), limits[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One target on its way through the flow. `began` is a `time.monotonic()`; time in which the
    device was waited for is not the budget's. `verdict_share` of it is kept for judging.
    """

    target: Target
    options: Options
    listener: Listener
    machine: Machine
    bench: Workbench
    began: float
    device: DeviceLock
    verdict_share: float = VERDICT_SHARE

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
        return self.deadline - self.verdict_share * self.options.budget_seconds

    @property
    def compiling_deadline(self) -> float:
        """When no trial compiles any more: most of what is kept for judging is left to that."""
        return self.trials_deadline + COMPILING_SHARE * (self.deadline - self.trials_deadline)

    @property
    def deadline(self) -> float:
        """When the budget is used up."""
        return self.began + self.options.budget_seconds + self.device.waited_seconds

    def judging(self, windows: Sequence[Window]) -> "Context":
        """This, with as much kept for judging as a program of such `windows` needs."""
        scatter = scatter_of([each for each in windows if each.mode == AS_IS])
        return replace(self, verdict_share=SCATTERED_SHARE) if scatter > SCATTERED else self

    def with_left(self, seconds: float) -> "Context":
        """This, with at least so much left of its budget."""
        lacking = seconds - (self.deadline - time.monotonic())
        return replace(self, began=self.began + max(0.0, lacking))

    @property
    def patience_seconds(self) -> float:
        """What one percent of expected gain may take."""
        given = self.options.patience_seconds
        return PATIENCE_SHARE * self.options.budget_seconds if given is None else given

    @property
    def trial_seconds(self) -> float:
        """How long the timed part of a trial takes."""
        return self.seconds(TRIAL_SHARE, TRIAL_SECONDS)

    @property
    def run_seconds(self) -> float:
        """What a run takes before it is timed, but for its start."""
        first = self.bench.first_epoch
        return self.warm_seconds + (first.seconds if first else 0.0)

    @property
    def spent_seconds(self) -> float:
        """What the flow has cost so far."""
        return time.monotonic() - self.began - self.device.waited_seconds
