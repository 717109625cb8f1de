"""Loader workers that live on from one epoch to the next.

What it does
    Sets `DataLoader(persistent_workers=True)`: the workers are started once instead of at every
    epoch.

When it helps
    When epochs are short: starting the workers took 50 to 350 ms where it was measured. What it can
    gain follows from the length of an epoch, so it is computed first, and tried only where that is
    worth it.

What it costs
    The workers' memory between epochs, during validation for example.

What it changes
    The random streams of later epochs. Changes that the program makes to its dataset between epochs
    no longer reach the workers: where such changes are seen, it is left off. So it is where a
    `worker_init_fn` seeds the workers alike in every epoch.
"""

from autotune.diagnosis import Bottleneck
from autotune.diagnosis.validation import steps_of_an_epoch
from autotune.knobs.evidence import NO_LOADER, SMALLEST_GAIN
from autotune.knobs.knob import Choices, Config, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Profile
from autotune.profiling.starting import starting
from autotune.source.edits import Edit, LoaderArgument
from autotune.workload.seen import Seen, SeenLoader
from autotune.workload.setup import Setup

# Seconds to start the workers at an epoch's beginning where the program's own were not timed: the
# slowest that was measured (50 to 350 ms).
_START_SECONDS = 0.35
_NO_SECOND_EPOCH = (
    "no second epoch was begun while it was timed: what workers that live on do is seen only then"
)

_CHANGED = "the dataset is changed between epochs, which they would not see"


class PersistentWorkers(Knob):
    name = "persistent_workers"
    relieves = frozenset({Bottleneck.DATA})
    semantics = Semantics.EQUIVALENT
    admits = (False, True)

    def domain(self, profile: Profile) -> Choices | Skip:
        loader = profile.seen.loader
        if loader is None:
            return Skip(reason=NO_LOADER, impossible=True)
        if loader.persistent_workers:
            return Skip(reason="the workers live on from epoch to epoch already")
        if reason := _would_differ(loader):
            return Skip(reason=reason, impossible=True)
        begins = starting(profile)
        if begins is not None and begins.anew:
            return Skip(
                reason="the loader is built anew for each epoch, and its workers with it: build it "
                "once, before the loop over epochs, for them to live on"
            )
        if loader.length is None:
            return Skip(reason="the loader has no length: how long an epoch takes is not known")
        steps = min(loader.length, steps_of_an_epoch(profile.seen))
        epoch_seconds = steps * profile.step_seconds / _most_gain(profile)
        start_seconds = begins.seconds if begins is not None else _START_SECONDS
        share = start_seconds / (epoch_seconds + start_seconds)
        if share < SMALLEST_GAIN:
            return Skip(reason="starting the workers anew takes next to nothing of an epoch")
        return Choices(own=False, values=(False, True))

    def active(self, chosen: Config) -> bool:
        return chosen.get("num_workers") != 0

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # What it takes to start workers is part of the loop (`trials/loop.py`).
        return Expectation(phase="data", log_mean=0.0, sd=0.05)

    def read(self, seen: Seen) -> Value:
        # Where the program changes its dataset meanwhile, they are not the workers it would have.
        loader = seen.loader
        return loader is not None and loader.persistent_workers and not loader.changing

    def is_another(self, value: Value, seen: Seen) -> str:
        changing = value and seen.loader is not None and seen.loader.changing
        return f"persistent_workers: {_CHANGED}" if changing else ""

    def doubted(self, seen: Seen) -> str:
        loader = seen.loader
        if loader is None or not loader.persistent_workers:
            return ""
        if loader.changing:
            return _CHANGED
        return "" if loader.epochs > 1 else _NO_SECOND_EPOCH

    def apply(self, setup: Setup, value: Value) -> None:
        setup.loader["persistent_workers"] = value

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        others = seen.loaders_beside
        return (LoaderArgument(name="persistent_workers", code=str(value), others=others),)


def _would_differ(loader: SeenLoader) -> str:
    """Why workers that live on would deliver other samples; "" where they would not."""
    if loader.changing:
        return (
            "what the dataset keeps changes from one epoch to the next (as where it is told which "
            "one it is): workers that live on may not see that"
        )
    if loader.reseeded:
        return (
            "by its code its worker_init_fn seeds the workers alike in every epoch: those that "
            "live on would go on to other random numbers"
        )
    if loader.beside:
        return (
            "a step draws from other loaders as well: workers that live on take a number less from "
            "random numbers as an epoch begins, by which its order may part from theirs"
        )
    if loader.nested:
        return (
            "the loader is begun again while a loop goes over it: with workers that live on both "
            "would be one"
        )
    return ""


def _most_gain(profile: Profile) -> float:
    """How much shorter an epoch could become if loading were free."""
    ceiling = profile.ceiling("compute")
    return max(1.0, ceiling.max_gain or 1.0) if ceiling else 1.0
