"""What holds the program back: bottlenecks, each with its evidence and the most that fixing it could gain."""

from dataclasses import dataclass
from enum import StrEnum

from autotune.profiling.profile import Profile


class Bottleneck(StrEnum):
    """The closed list of what can hold a training step back."""

    DATA = "data"  # the device waits for the loader
    COPY = "copy"  # the device waits for batches to arrive in its memory
    OVERHEAD = "overhead"  # the host cannot launch work fast enough: many tiny operations
    COMPUTE = "compute"  # the device computes all the time
    OPTIMIZER = "optimizer"  # the optimizer's own step takes a large share
    MEMORY = "memory"  # what is close to the device's memory
    HOST = "host"  # the program's own Python between the phases


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One bottleneck. `severity` is "info", "warning" or "critical"; `max_gain` a ratio, None where unknown."""

    bottleneck: Bottleneck
    severity: str
    evidence: str
    max_gain: float | None
    headline: str


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """The bottlenecks of `profile`, the one that holds it back most first; never empty."""
    raise NotImplementedError
