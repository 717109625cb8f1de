"""What a step does besides loading, copies, forward, backward and the optimizer."""

from collections.abc import Set
from dataclasses import replace
from pathlib import Path

from autotune.diagnosis.finding import (
    WAIT_CRITICAL,
    WAIT_WARNING,
    Bottleneck,
    Finding,
    can_gain,
    most_gain,
    percent,
    severity,
)
from autotune.machine import CPU
from autotune.profiling.profile import Profile
from autotune.profiling.trace import LAUNCH, OTHER, SYNC
from autotune.workload.found import BusyLine
from autotune.workload.window import AS_IS, SYNCS

MOSTLY = 0.5  # of the time that no phase accounts for
MUCH = 0.25  # of a phase, for one function to be named
ONE_LINE = 0.75  # of a function, for one of its lines to stand for it


def own_python(profile: Profile) -> Finding | None:
    """The time that no phase accounts for, by what it most likely is."""
    if _has_no_trace(profile) and not _is_mostly_gradless(profile):
        return _perhaps_python(profile)
    share = share_outside(profile)
    # Where the host computes, a loss that is a function is among it.
    loads = profile.seen.loader is not None and not _is_mostly_gradless(profile)
    times = 2.0 if profile.machine.device == CPU and loads else 1.0
    grade = severity(share, times * WAIT_WARNING, times * WAIT_CRITICAL)
    if not grade:
        return None
    if _is_mostly_gradless(profile):
        gradless = _gradless_share(profile)
        what = f"Acts or evaluates without gradients {percent(gradless)} of each step"
        evidence = "From a call of its model without gradients to the next with them."
        share = gradless
    elif profile.seen.loader is None:
        what = f"Prepares batches or runs other code of its own {percent(share)} of each step"
        evidence = "The time outside forward, backward and the optimizer."
    else:
        what = f"Runs other code of its own {percent(share)} of each step"
        evidence = "The time outside loading, copies, forward, backward and the optimizer."
    return Finding(
        bottleneck=Bottleneck.HOST,
        severity=grade,
        evidence=evidence,
        max_gain=most_gain(share),
        headline=f"{what}{busiest(profile, 'other')}; "
        f"without that it {can_gain(most_gain(share))}.",
    )


def _perhaps_python(profile: Profile) -> Finding | None:
    """The time that no phase of a GPU accounts for, where nobody knows if it was idle meanwhile."""
    share = profile.phases.get("other", 0.0)
    if not severity(share, WAIT_WARNING, WAIT_CRITICAL):
        return None
    return Finding(
        bottleneck=Bottleneck.HOST,
        severity="info",
        evidence="Kernels outside the model's calls and the optimizer (losses that are functions, "
        "gradient clipping, averages of weights), or the program's own Python.",
        max_gain=None,
        headline=f"Runs something else {percent(share)} of each step; without a trace it is not "
        "known whether the device was idle meanwhile.",
    )


def share_outside(profile: Profile) -> float:
    """The share of a step that no phase accounts for; on a GPU, no more than a trace says that the
    device was idle for without waiting for a batch: the kernels that run outside are no Python,
    unless they are of the model, called without gradients.
    """
    share, gpu = profile.phases.get("other", 0.0), profile.gpu
    if gpu is None or _is_mostly_gradless(profile):
        return share
    return min(share, sum(gpu.idle.get(cause, 0.0) for cause in (LAUNCH, SYNC, OTHER)))


def busiest(profile: Profile, phase: str) -> str:
    """Where most of a phase's time goes, as its share goes on: ", 60 % in decode (data.py:7)", or
    ", 60 % in decode (40 % at data.py:7)" where its other lines take notably more; "" where no
    function of the program's own takes much of it.
    """
    found = _busiest_line(profile, phase)
    whole = share_outside(profile) if phase == "other" else profile.phases.get(phase, 0.0)
    if found is None or found.share < MUCH * whole:
        return ""
    share = percent(min(found.share, whole))  # they are of other steps
    place = f"{Path(found.path).name}:{found.line}"
    if found.function.startswith("<"):  # a module, a lambda, a comprehension
        return f", {share} at {place}"
    alone = dict(found.lines).get(found.line, found.share)
    if alone < ONE_LINE * found.share:
        place = f"{percent(alone)} at {place}"
    return f", {share} in {found.function} ({place})"


def _busiest_line(profile: Profile, phase: str) -> BusyLine | None:
    """Where the host is seen most; on a GPU, but for lines at which it waits for the device."""
    lines, gpu = [line for line in profile.lines if line.phase == phase], profile.gpu
    if gpu is not None and phase == "other":
        if SYNCS in gpu.missing:
            return None
        waits = {(each.path, each.line) for each in gpu.syncs}
        lines = [left for line in lines if (left := _without(line, waits)) is not None]
    return max(lines, key=lambda line: line.share, default=None)


def _without(line: BusyLine, waits: Set[tuple[str, int]]) -> BusyLine | None:
    """The function without these of its lines; None where no other is known."""
    waiting = sum(share for number, share in line.lines if (line.path, number) in waits)
    others = (number for number, _ in line.lines if (line.path, number) not in waits)
    number = next(others, None)
    return None if number is None else replace(line, line=number, share=line.share - waiting)


def _has_no_trace(profile: Profile) -> bool:
    return profile.gpu is not None and profile.gpu.trace is None


def _is_mostly_gradless(profile: Profile) -> bool:
    return _gradless_share(profile) > MOSTLY * profile.phases.get("other", 0.0)


def _gradless_share(profile: Profile) -> float:
    """The share of a step without gradients, of what no phase accounts for: it is timed by the
    host, who may have waited meanwhile for what a GPU still had to do of the step.
    """
    windows = [window for window in profile.windows if window.mode == AS_IS]
    seconds = sum(window.seconds for window in windows)
    gradless = sum(window.gradless_seconds for window in windows)
    share = profile.phases.get("other", 0.0)
    return min(share, gradless / seconds) if seconds else 0.0
