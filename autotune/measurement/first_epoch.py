"""A first epoch in which a dataset fills a cache in memory, as each run does anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from autotune.measurement.benchmark import WARM_WINDOW_SECONDS, WARM_WINDOW_STEPS
from autotune.measurement.filling import EPOCHS_THAT_FILL, QUIET_WINDOWS, epochs_of
from autotune.measurement.process import ProcessRun
from autotune.profiling.profile import FIRST_EPOCH, Doubt
from autotune.workload.window import Window, as_one

# Of a cache in memory the first epoch adds one to it for each sample, but for those that repeat.
KEPT_PER_SAMPLE = 0.5
# What makes a step hardly shorter is not worth an epoch of each run.
WORTH_AN_EPOCH = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEpoch:
    """A cache in memory that a dataset filled while the program trained its first batches.

    Attributes:
        names: of what it is kept in.
        steps: after which it was full.
        seconds: that they took.
        speedup: how many times as fast training was then.
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
    """Let a warm run go on until its dataset keeps no more of what it reads; None where it keeps
    nothing, or is not full in time, or trains no faster then.

    Args:
        run: of the program as it is.
        windows: of it since `before`; those that follow are added, so that none is lost where it
            ends.
        before: what it kept at their beginning.
        kept: how much it keeps now, by name.
        limit_seconds: how long all of them may take.
        told: is called before it goes on.

    Raises:
        RunEnded: it ended or failed meanwhile.
    """
    now = kept()
    names = grown(before, now, sum(each.samples for each in windows))
    if not names:
        return None
    told()
    quiet = 0
    while quiet < QUIET_WINDOWS:
        late = epochs_of(run) > EPOCHS_THAT_FILL
        windows.append(run.window(WARM_WINDOW_SECONDS, steps=WARM_WINDOW_STEPS))
        before, now = now, kept()
        quiet = 0 if grown(before, now, windows[-1].samples) else quiet + 1
        if (late or _seconds(windows) > limit_seconds) and not quiet:
            return None
    filling, later = windows[:-QUIET_WINDOWS], as_one(windows[-QUIET_WINDOWS:])
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


def grown(before: Mapping[str, int], after: Mapping[str, int], samples: int) -> tuple[str, ...]:
    """What a dataset keeps more of since, by name, for nearly each of so many samples."""
    enough = max(1.0, KEPT_PER_SAMPLE * samples)
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
            name=FIRST_EPOCH,
            evidence=f"The dataset keeps what it has read ({names} grew by one for each sample): "
            "where later epochs take it from there, all figures are of the first epoch alone.",
            advice="Have it read before training begins, or kept in files: workers would each fill "
            "a cache of their own, and in every epoch anew unless they persist.",
        ),
    )


def _full(first: FirstEpoch) -> Doubt:
    return Doubt(
        name="cache filled",
        evidence=f"The dataset keeps what it has read ({_listed(first.names)}): after "
        f"{first.seconds:.0f} s it kept no more, training was {first.speedup:.1f} times as fast, "
        "and what is measured is what comes then. The first epoch takes longer.",
        advice="Nothing is to be done where it trains for many epochs. Workers would each fill a "
        "cache of their own, and in every epoch anew unless they persist.",
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
