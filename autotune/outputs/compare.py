"""Two results side by side: is the program of the second slower than that of the first?"""

import math
from dataclasses import dataclass

from autotune.machine import Machine
from autotune.outputs.wording import significant
from autotune.profiling.profile import Profile
from autotune.result import Result
from autotune.verdict import Ratio
from autotune.workload.window import PHASES


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: its program as it is. Times in seconds of one optimizer step."""

    name: str
    started_at: str
    samples_per_second: float
    interval: tuple[float, float]
    step_seconds: float
    tuned_samples_per_second: float | None
    peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePair:
    """Seconds of a step in one phase, before and after; None where it was not measured."""

    phase: str
    before_seconds: float | None
    after_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What became of the first, the second measured against it.

    Attributes:
        before: the first.
        after: the second.
        speedup: samples per second, after over before; None where one of them trained nothing. The
            two were measured apart, so that its interval knows only what each saw of its own noise.
        phases: a step's phases side by side.
        differences: what else differs between the two runs, a sentence each: as much as the
            program, it may be why the speeds differ.
    """

    before: Side
    after: Side
    speedup: Ratio | None
    phases: tuple[PhasePair, ...]
    differences: tuple[str, ...]

    def is_slower(self, percent: float) -> bool:
        """Whether the second is slower by more than `percent`, beyond the interval's doubt."""
        return self.speedup is not None and self.speedup.high < 1 - percent / 100


def compare_results(before: Result, after: Result) -> Comparison:
    """The programs of two results as they were, `after` against `before`."""
    first, second = before.profile, after.profile
    return Comparison(
        before=_side(before),
        after=_side(after),
        speedup=_speedup(first, second),
        phases=tuple(
            PhasePair(
                phase=phase,
                before_seconds=_phase_seconds(first, phase),
                after_seconds=_phase_seconds(second, phase),
            )
            for phase in dict.fromkeys((*PHASES, *first.phases, *second.phases))
            if phase in first.phases or phase in second.phases
        ),
        differences=_differences(before, after),
    )


def _side(result: Result) -> Side:
    profile, verdict = result.profile, result.verdict
    return Side(
        name=result.target.name,
        started_at=result.started_at,
        samples_per_second=profile.samples_per_second,
        interval=profile.interval,
        step_seconds=profile.step_seconds,
        tuned_samples_per_second=verdict.tuned_samples_per_second if verdict else None,
        peak_bytes=profile.memory.peak_bytes,
    )


def _speedup(before: Profile, after: Profile) -> Ratio | None:
    """The ratio of two independent measurements: its logarithm's variance is the sum of theirs."""
    speeds = before.samples_per_second, after.samples_per_second
    if not all(speed > 0 and math.isfinite(speed) for speed in speeds):
        return None
    centre = math.log(speeds[1] / speeds[0])
    half = math.hypot(_log_half_width(before.interval), _log_half_width(after.interval))
    return Ratio(
        estimate=math.exp(centre), low=math.exp(centre - half), high=math.exp(centre + half)
    )


def _log_half_width(interval: tuple[float, float]) -> float:
    low, high = interval
    return math.log(high / low) / 2 if 0 < low <= high < math.inf else math.inf


def _phase_seconds(profile: Profile, phase: str) -> float | None:
    share = profile.phases.get(phase)
    return None if share is None else share * profile.step_seconds


def _differences(before: Result, after: Result) -> tuple[str, ...]:
    pairs = [
        ("program", before.target.name, after.target.name),
        (
            "program's arguments",
            " ".join(before.target.arguments),
            " ".join(after.target.arguments),
        ),
        *_machine_pairs(before.profile.machine, after.profile.machine),
        ("batch", _batch(before.profile), _batch(after.profile)),
    ]
    return tuple(
        f"another {what}: {first or 'none'} before, {second or 'none'} after"
        for what, first, second in pairs
        if first != second
    )


def _machine_pairs(before: Machine, after: Machine) -> list[tuple[str, str, str]]:
    versions = sorted({*before.versions, *after.versions})
    return [
        ("device", before.device_name, after.device_name),
        ("number of cores", str(before.cores), str(after.cores)),
        *((name, before.versions.get(name, ""), after.versions.get(name, "")) for name in versions),
    ]


def _batch(profile: Profile) -> str:
    return f"{significant(profile.seen.samples_per_step)} samples a step"
