"""Two results side by side: is the program of the second slower than that of the first?

The programs that the searches hand back are compared where both do, else the programs as they are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import UsageError
from autotune.machine import Machine
from autotune.measurement.ratios import PAIR_SCATTER
from autotune.outputs.speeds import Interval, handed_back
from autotune.outputs.wording import counted, significant
from autotune.profiling.profile import PROCESSORS_TAKEN, Profile
from autotune.result import Result, TargetFacts
from autotune.verdict import Ratio
from autotune.workload.program.target import OBJECTS
from autotune.workload.window import PHASES

_TUNED = "_tuned"  # what a search adds to the name of the program that it hands back
# How far two processes of one program come apart by chance, 95 times in 100, as a log-ratio.
_PROCESSES = 1.96 * PAIR_SCATTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: its program as it is. Times in seconds of one optimizer step.

    `tuned` is what its search has found, in turns with the program as it then ran, and
    `tuned_samples_per_second` the speed of the program that was handed back.
    """

    name: str
    started_at: str
    samples_per_second: float
    interval: tuple[float, float]
    step_seconds: float
    tuned: Ratio | None
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
        compared: what `speedup` is of: "tuned", what both searches hand back, or "as it is".
        speedup: samples per second, after over before. The two were measured apart: its interval
            knows what each saw of its own noise, and how far processes of one program differ.
        phases: a step's phases side by side.
        same_machine: both ran on machines alike.
        disturbed: other programs had the processors in one of the two.
        differences: what else differs between the two runs, a sentence each: as much as the
            program, it may be why the speeds differ.
    """

    before: Side
    after: Side
    compared: str
    speedup: Ratio
    phases: tuple[PhasePair, ...]
    same_machine: bool
    disturbed: bool
    differences: tuple[str, ...]

    def is_slower(self, percent: float) -> bool:
        """Whether the second is slower by more than `percent`, beyond the interval's doubt."""
        return not self.disturbed and self.speedup.high < 1 - percent / 100


def compare_results(before: Result, after: Result) -> Comparison:
    """The programs of two results, `after` against `before`.

    Raises:
        UsageError: they are of different programs, or one of them has no speed to compare.
    """
    _check(before, after)
    first, second = before.profile, after.profile
    tuned = [speed for speed in map(handed_back, (before, after)) if speed is not None]
    as_it_is = [(each.samples_per_second, each.interval) for each in (first, second)]
    return Comparison(
        before=_side(before),
        after=_side(after),
        compared="tuned" if len(tuned) == 2 else "as it is",
        speedup=_speedup(*(tuned if len(tuned) == 2 else as_it_is)),
        phases=tuple(
            PhasePair(
                phase=phase,
                before_seconds=_phase_seconds(first, phase),
                after_seconds=_phase_seconds(second, phase),
            )
            for phase in dict.fromkeys((*PHASES, *first.phases, *second.phases))
            if phase in first.phases or phase in second.phases
        ),
        same_machine=_hardware(first.machine) == _hardware(second.machine),
        disturbed=any(profile.doubt(PROCESSORS_TAKEN) for profile in (first, second)),
        differences=_differences(before, after),
    )


def _side(result: Result) -> Side:
    profile, verdict, tuned = result.profile, result.verdict, handed_back(result)
    return Side(
        name=result.target.name,
        started_at=result.started_at,
        samples_per_second=profile.samples_per_second,
        interval=profile.interval,
        step_seconds=profile.step_seconds,
        tuned=verdict.speedup if verdict and verdict.outcome == "faster" else None,
        tuned_samples_per_second=tuned[0] if tuned else None,
        peak_bytes=profile.memory.peak_bytes,
    )


def _check(before: Result, after: Result) -> None:
    for which, result in (("first", before), ("second", after)):
        speed = result.profile.samples_per_second
        if not (speed > 0 and math.isfinite(speed)):
            raise UsageError(
                f"The {which} result, of {result.target.name}, has no speed of the program as it "
                "is: there is nothing to compare.",
                "Measure it again with `autotune profile`.",
            )
    if not _are_one_program(before.target, after.target):
        raise UsageError(
            f"These are results of different programs: {before.target.path or 'objects'} and "
            f"{after.target.path or 'objects'}.",
            "Compare two results of one program: before and after a change, or here and there.",
        )


def _are_one_program(before: TargetFacts, after: TargetFacts) -> bool:
    """Whether the two have one text or one name, changed or tuned in the meantime."""
    names = {each.name.removesuffix(_TUNED) for each in (before, after)}
    return before.source_sha256 == after.source_sha256 or len(names) == 1


def _speedup(before: tuple[float, Interval], after: tuple[float, Interval]) -> Ratio:
    """The ratio of two independent measurements: its logarithm's variance is the sum of theirs, and
    of that between two processes.
    """
    centre = math.log(after[0] / before[0])
    half = math.hypot(_log_half_width(before[1]), _log_half_width(after[1]), _PROCESSES)
    return Ratio(
        estimate=math.exp(centre), low=math.exp(centre - half), high=math.exp(centre + half)
    )


def _log_half_width(interval: Interval) -> float:
    low, high = interval
    return math.log(high / low) / 2 if 0 < low <= high < math.inf else math.inf


def _phase_seconds(profile: Profile, phase: str) -> float | None:
    share = profile.phases.get(phase)
    return None if share is None else share * profile.step_seconds


def _differences(before: Result, after: Result) -> tuple[str, ...]:
    pairs = [
        (
            "program's arguments",
            " ".join(before.target.arguments),
            " ".join(after.target.arguments),
        ),
        ("machine", _hardware(before.profile.machine), _hardware(after.profile.machine)),
        *_version_pairs(before.profile.machine.versions, after.profile.machine.versions),
        ("model", _model(before.profile), _model(after.profile)),
        ("dataset", _dataset(before.profile), _dataset(after.profile)),
        ("batch", _batch(before.profile), _batch(after.profile)),
    ]
    return (
        *_source_difference(before.target, after.target),
        *(
            f"another {what}: {first or 'none'} before, {second or 'none'} after"
            for what, first, second in pairs
            if first != second
        ),
        *(
            f"processors that it was ready for and did not have {when}: measure it again when the "
            "machine is quiet"
            for when, result in (("before", before), ("after", after))
            if result.profile.doubt(PROCESSORS_TAKEN)
        ),
    )


def _source_difference(before: TargetFacts, after: TargetFacts) -> tuple[str, ...]:
    # Objects are hashed as they were pickled, which differs from run to run.
    if before.source_sha256 == after.source_sha256 or before.kind == OBJECTS:
        return ()
    if before.path == after.path:
        return ("the source differs: the program was changed in between",)
    return (f"the source differs: {before.path} before, {after.path} after",)


def _hardware(machine: Machine) -> str:
    return f"{machine.device_name} with {counted(machine.cores, 'core')}"


def _version_pairs(
    before: Mapping[str, str], after: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    names = sorted({*before, *after})
    return [(name, before.get(name, ""), after.get(name, "")) for name in names]


def _model(profile: Profile) -> str:
    return ", ".join(
        f"{model.name} of {model.parameters:,} parameters" for model in profile.seen.models
    )


def _dataset(profile: Profile) -> str:
    loader = profile.seen.loader
    if loader is None:
        return ""
    length = "unknown length" if loader.dataset_length is None else f"{loader.dataset_length:,}"
    return f"{loader.dataset} of {length}"


def _batch(profile: Profile) -> str:
    return f"{significant(profile.seen.samples_per_step)} samples a step"
