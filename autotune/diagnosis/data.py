"""Waits for batches, and what the loader does meanwhile."""

from autotune.diagnosis.finding import (
    NO_GAIN,
    NOTHING,
    WAIT_CRITICAL,
    WAIT_WARNING,
    Bottleneck,
    Finding,
    can_gain,
    most_gain,
    percent,
    rate,
    severity,
    surely,
    times,
)
from autotune.diagnosis.host import busiest
from autotune.machine import CPU
from autotune.profiling.ceilings import UNDISTURBED
from autotune.profiling.profile import Profile
from autotune.profiling.starting import starting

# A loader that keeps this much of a core busy makes samples; below the other it waits.
WORKING_SHARE, WAITING_SHARE = 0.6, 0.3
ALL_CORES = 0.9  # of all cores: from here on the loader has used them up
# Batches that cost nothing gain so many times what not waiting for them gains: the workers that
# make them have slowed the rest of a step.
CROWDED = 1.5
MOST_OF_THE_WAIT = 0.5


def data(profile: Profile) -> Finding | None:
    """The share of a step that waits for batches, where it is worth a finding: by itself, or since
    those that make them have the processors that the rest of a step lacks.
    """
    share = profile.phases.get("data", 0.0)
    starts = _share_of_starting(profile)
    grade = severity(max(surely(profile, "data"), min(share, starts)), WAIT_WARNING, WAIT_CRITICAL)
    gain = _gain_of_loading(profile, share)
    loader, host = profile.seen.loader, profile.ceiling("host")
    # A GPU that had batches at hand itself was spared the copies too.
    on_host = host is not None and host.max_gain is not None
    freed = share if on_host else share + profile.phases.get("copy", 0.0)
    crowded = loader and loader.num_workers and gain > CROWDED * most_gain(freed)
    if crowded and not grade:
        grade = severity(1 - 1 / gain, WAIT_WARNING, WAIT_CRITICAL)
    if not grade:
        return None
    slowed = ", and workers slow the rest" if crowded else ""
    busy = busiest(profile, "data")
    started, mostly = _starts(profile, starts, share)
    said = (started, _loader_at_work(profile), _rates(profile))
    return Finding(
        bottleneck=Bottleneck.DATA,
        severity=grade if gain >= NO_GAIN else "info",
        evidence=" ".join(filter(None, said)),
        max_gain=gain,
        headline=f"Waits for data {percent(share)} of each step{mostly or busy + slowed}"
        f"{_can_gain(profile, gain)}.",
    )


def _can_gain(profile: Profile, gain: float) -> str:
    """What loading faster gains, or that what was timed says otherwise than the wait."""
    measured = any(
        (each := profile.ceiling(name)) and each.max_gain for name in ("host", "compute")
    )
    if measured and gain <= NOTHING:
        return ", but with batches always at hand it was not timed faster"
    return f"; loading faster {can_gain(gain)}"


def _share_of_starting(profile: Profile) -> float:
    """The share of all time that workers take to start anew in each epoch, 0 if unknown."""
    begins = starting(profile)
    if begins is None:
        return 0.0
    return begins.seconds * profile.samples_per_second / begins.epoch_samples


def _starts(profile: Profile, of_all: float, share: float) -> tuple[str, str]:
    """What it takes to start workers anew in each epoch, as evidence and, where that is most of the
    wait, for the headline; "" where it is little.
    """
    begins, loader = starting(profile), profile.seen.loader
    if begins is None or loader is None or of_all < WAIT_WARNING:
        return "", ""
    mend = "Build the loader once, with persistent_workers=True" if begins.anew else ""
    workers = f"{loader.num_workers} worker{'' if loader.num_workers == 1 else 's'}"
    evidence = (
        f"Starting {workers} anew in each epoch of {begins.epoch_samples:,.0f} "
        f"samples takes {begins.seconds:.2f} s, {percent(of_all)} of all time."
    )
    most = of_all >= MOST_OF_THE_WAIT * share
    headline = f", most of it for {workers} to start anew in each epoch" if most else ""
    return " ".join(filter(None, (evidence, mend and f"{mend}, or have fewer."))), headline


def beside_the_wait(profile: Profile) -> str:
    """What batches at hand gain clearly more than the wait for them takes, where that is short, and
    why: what makes them slows the rest of a step. "" where they do not. Where a GPU has them at
    hand already, they gain what copies take as well.
    """
    ceiling, share = profile.ceiling("compute"), profile.phases.get("data", 0.0)
    if ceiling is None or ceiling.max_gain is None or share >= WAIT_WARNING:
        return ""
    if ceiling.reason:  # it was not timed so
        return ""
    loader, freed = profile.seen.loader, share + profile.phases.get("copy", 0.0)
    if not (loader and loader.num_workers) or ceiling.max_gain <= UNDISTURBED * most_gain(freed):
        return ""
    free = "loading" if profile.machine.device == CPU else "loading and copies"
    return (
        f" With {free} in no time it ran {times(ceiling.max_gain)} as fast: the loader's workers "
        "slow the rest (they may take processors from it)."
    )


def _gain_of_loading(profile: Profile, share: float) -> float:
    """The most that loading faster gains."""
    measured = (profile.ceiling(name) for name in ("host", "compute"))
    ceiling = next((each for each in measured if each and each.max_gain is not None), None)
    return most_gain(share, ceiling)


def _loader_at_work(profile: Profile) -> str:
    """What the loader does while the model waits: work, or wait itself."""
    busy, cores = profile.data_processor_share, profile.machine.cores
    if profile.seen.loader and profile.seen.loader.threaded:
        return "A thread of the program's own draws them, and does not keep up."
    if busy is None:
        return "What the loader does meanwhile was not measured."
    workers = profile.seen.loader.num_workers if profile.seen.loader else 0
    who = f"The loader, with {workers or 'no'} worker{'' if workers == 1 else 's'},"
    if busy >= ALL_CORES * cores and workers:
        return f"{who} keeps all {cores} cores busy."
    if busy >= WORKING_SHARE:
        return f"{who} keeps {busy:.1f} of {cores} cores busy."
    if busy < WAITING_SHARE:
        return f"{who} uses {busy:.2f} of a core: it waits itself, for slow reads, say."
    return f"{who} uses {busy:.2f} of a core: it works and waits by turns."


def _rates(profile: Profile) -> str:
    """What loader and model can do, each without the other."""
    compute = profile.ceiling("compute")
    subtracted = compute is not None and bool(compute.reason)  # more was timed than the waits take
    alone = "training without its waits comes to" if subtracted else "training alone takes"
    named = (("data", "the loader alone delivers"), ("compute", alone))
    parts = [
        f"{does} {rate(ceiling.samples_per_second)} samples/s"
        for name, does in named
        if (ceiling := profile.ceiling(name)) and ceiling.samples_per_second is not None
    ]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
