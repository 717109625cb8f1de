"""A first epoch in which a dataset fills a cache in memory, as each run does anew."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from autotune.measurement.benchmark import WARM_WINDOW_SECONDS, WARM_WINDOW_STEPS
from autotune.measurement.filling import EPOCHS_THAT_FILL, QUIET_WINDOWS, epochs_of
from autotune.measurement.processes.process import ProcessRun
from autotune.profiling.profile import FILLING, Doubt
from autotune.workload.window import Window, as_one

# Of a cache in memory the first epoch adds one to it for each sample, but for those that repeat.
KEPT_PER_SAMPLE = 0.5
# It is full when it adds no more than this for each of so many samples: ever fewer are new where
# they are drawn with replacement, or only some are kept.
STILL_KEPT, QUIET_SAMPLES = 0.02, 100
# What makes a step hardly shorter is not worth an epoch of each run.
WORTH_AN_EPOCH = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEpoch:
    """A cache in memory, kept under these `names`, that a dataset filled while the program trained
    its first batches: it was full after so many `steps`, which took `seconds`, and training was
    faster by `speedup` then.
    """

    names: tuple[str, ...]
    steps: int
    seconds: float
    speedup: float


def fill_memory(
    run: ProcessRun,
    windows: list[Window],
    *,
    before: Mapping[str, int],
    kept: Callable[[], Mapping[str, int]],
    limit_seconds: float,
    told: Callable[[], None],
) -> FirstEpoch | None:
    """Let a warm run of the program as it is go on until its dataset keeps no more of what it
    reads; None where it keeps nothing, or trains no faster then, or is not full within
    `limit_seconds` of all `windows`, which it ran in since it kept what it did `before`. `kept`
    asks how much it keeps now, by name; `told` and `windows` are as in `filling.fill`.

    Raises:
        RunEnded: it ended or failed meanwhile.
    """
    ends = time.monotonic() + limit_seconds - _seconds(windows)
    then = kept()
    names = grown(before, then, _samples(windows))
    if not names:
        return None
    told()
    quiet: list[Window] = []
    while len(quiet) < QUIET_WINDOWS or (
        _samples(quiet) < QUIET_SAMPLES and time.monotonic() < ends
    ):
        late = epochs_of(run) > EPOCHS_THAT_FILL
        quiet.append(run.window(WARM_WINDOW_SECONDS, steps=WARM_WINDOW_STEPS))
        windows.append(quiet[-1])
        now = kept()
        if {*names} & {*grown(then, now, _samples(quiet), per_sample=STILL_KEPT)}:
            quiet, then = [], now
        if not quiet and (late or time.monotonic() > ends):
            return None
    filling, later = windows[: -len(quiet)], as_one(quiet)
    usual = median(each.samples_per_second for each in filling)
    found = FirstEpoch(
        names=names,
        steps=sum(each.steps for each in filling),
        seconds=_seconds(filling),
        speedup=later.samples_per_second / usual if usual else 1.0,
    )
    return found if found.speedup > WORTH_AN_EPOCH else None


def _seconds(windows: Sequence[Window]) -> float:
    return sum(each.seconds for each in windows)


def _samples(windows: Sequence[Window]) -> int:
    return sum(each.samples for each in windows)


def grown(
    before: Mapping[str, int],
    after: Mapping[str, int],
    samples: int,
    *,
    per_sample: float = KEPT_PER_SAMPLE,
) -> tuple[str, ...]:
    """What a dataset keeps more of since, by name: at least `per_sample` for each of so many."""
    enough = max(1.0, per_sample * samples)
    both = (name for name in after if name in before)  # what is new was made at once
    return tuple(name for name in both if after[name] - before[name] >= enough)


def doubts_of_memory(first: FirstEpoch | None, kept: Sequence[str]) -> tuple[Doubt, ...]:
    """What is to be known of a program whose dataset keeps what it reads: in its `first` epoch, or,
    in what is named so, still as it was timed.
    """
    if not kept:
        return (_full(first),) if first else ()
    names = _listed(kept)
    return (
        Doubt(
            name=FILLING,
            evidence=f"The dataset keeps ever more as it is read ({names} grew while it was "
            "timed): where later epochs take samples from there, none of the figures are of those.",
        ),
    )


def _full(first: FirstEpoch) -> Doubt:
    return Doubt(
        name="cache filled",
        evidence=f"The dataset kept ever more as it was read ({_listed(first.names)}): after "
        f"{first.seconds:.0f} s it kept no more, training was {first.speedup:.1f} times as fast, "
        "and what is measured is what comes then. What comes before that takes longer.",
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
