"""Best against baseline, measured in turns: is it faster, and is it the same training?"""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.knobs.knob import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """An estimated ratio with its interval; `confidence` is the interval's level."""

    estimate: float
    low: float
    high: float
    confidence: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The emitted program itself, run and timed beside the baseline; `reason` says why where it was not."""

    samples_per_second: float | None
    speedup: Ratio | None
    settings_observed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both trained the same: losses of the same batches, smoothed, against a band from their own noise.

    `max_relative_loss_difference` is the largest relative difference of the smoothed curves, `band` what it may
    be; `same_training` is None where there were too few steps to say.
    """

    same_training: bool | None
    max_relative_loss_difference: float | None
    band: float | None
    steps: int
    baseline_losses: tuple[float, ...] = ()
    tuned_losses: tuple[float, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer. `outcome` is "faster", "no_gain" or "failed"; `reason` is one sentence.

    `turns` keeps the raw windows: for each contestant ("baseline", "tuned", "delivered") its samples and seconds in
    order, so that anyone can compute the interval again.
    """

    outcome: str
    reason: str
    config: Config
    speedup: Ratio | None
    baseline_samples_per_second: float | None
    tuned_samples_per_second: float | None
    delivered: Delivered | None
    parity: Parity | None
    turns: Mapping[str, tuple[tuple[int, float], ...]]
