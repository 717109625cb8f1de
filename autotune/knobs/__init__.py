"""The things that can be turned: one file each, and the tuple that names them all."""

from collections.abc import Mapping
from difflib import get_close_matches

from autotune.errors import UsageError
from autotune.knobs.batch_size import BatchSize
from autotune.knobs.blas_threads import BlasThreads
from autotune.knobs.channels_last import ChannelsLast
from autotune.knobs.checkpointing import Checkpointing
from autotune.knobs.compile import Compile
from autotune.knobs.cudnn_benchmark import CudnnBenchmark
from autotune.knobs.expandable_segments import ExpandableSegments
from autotune.knobs.flush_denormal import FlushDenormal
from autotune.knobs.keep_freed_memory import KeepFreedMemory
from autotune.knobs.knob import Config, Knob, Value
from autotune.knobs.micro_batches import MicroBatches
from autotune.knobs.non_blocking import NonBlocking
from autotune.knobs.num_workers import NumWorkers
from autotune.knobs.optimizer import Optimizer
from autotune.knobs.persistent_workers import PersistentWorkers
from autotune.knobs.pin_memory import PinMemory
from autotune.knobs.precision import Precision
from autotune.knobs.prefetch_factor import PrefetchFactor
from autotune.knobs.prefetch_to_device import PrefetchesToDevice
from autotune.knobs.set_to_none import SetToNone
from autotune.knobs.threads import Threads
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

# In order of application: the process, its loader, the model from its layout to its compiler, the
# loop, the optimizer.
KNOBS: tuple[Knob, ...] = (
    Threads(),
    BlasThreads(),
    CudnnBenchmark(),
    ExpandableSegments(),
    KeepFreedMemory(),
    FlushDenormal(),
    BatchSize(),
    NumWorkers(),
    PrefetchFactor(),
    PersistentWorkers(),
    PinMemory(),
    NonBlocking(),
    PrefetchesToDevice(),
    Precision(),
    ChannelsLast(),
    Checkpointing(),
    Compile(),
    MicroBatches(),
    Optimizer(),
    SetToNone(),
)


def by_name(name: str) -> Knob:
    """The knob called `name`.

    Raises:
        UsageError: there is none.
    """
    for knob in KNOBS:
        if knob.name == name:
            return knob
    names = [knob.name for knob in KNOBS]
    near = get_close_matches(name, names, n=1)
    advice = f"did you mean {near[0]}?" if near else f"the knobs are {', '.join(names)}"
    raise UsageError(f"there is no knob called {name!r}", advice)


def setup_for(config: Config) -> Setup:
    """The Setup of a run that has the values in `config`.

    Raises:
        UsageError: a name or a value in `config` is not known.
    """
    for name, value in config.items():
        check(by_name(name), value)
    setup = Setup()
    for knob in KNOBS:
        if knob.name in config:
            knob.apply(setup, config[knob.name])
    return setup


def check(knob: Knob, value: Value) -> None:
    """Refuse a value that `knob` cannot take on any machine.

    Raises:
        UsageError: it is such a value.
    """
    if type(value) is type(knob.admits[0]) and value in knob.admits:
        return
    admitted = knob.admits
    if isinstance(admitted, range):
        known = f"a whole number from {admitted[0]} to {admitted[-1]}"
    else:
        known = " or ".join(_as_toml(each) for each in admitted)
    raise UsageError(f"{knob.name} cannot be {_as_toml(value) or 'empty'}", f"it can be {known}")


def read_all(seen: Seen) -> dict[str, Value]:
    """The value of every knob that an observed run had."""
    return {knob.name: knob.read(seen) for knob in KNOBS}


def differing(config: Config, seen: Seen) -> dict[str, Value]:
    """What of `config` an observed run did not have, whether or not it means anything beside the
    rest.
    """
    return {name: value for name, value in config.items() if by_name(name).read(seen) != value}


def missed(config: Config, seen: Seen) -> list[str]:
    """The settings of `config` that the run did not have, by name.

    A setting that means nothing beside the others (prefetching without workers) is not missed.
    """
    chosen: Mapping[str, Value] = {**read_all(seen), **config}
    return [name for name in differing(config, seen) if by_name(name).active(chosen)]


def unobserved(config: Config, seen: Seen) -> list[str]:
    """Each setting of `config` that the run did not have, in a sentence; any of them makes the run
    void.
    """
    return [
        f"{_asked_for(name, config[name])}, and {_why(name, seen)}" for name in missed(config, seen)
    ]


def _why(name: str, seen: Seen) -> str:
    knob = by_name(name)
    return knob.doubted(seen) or f"the run had {_as_toml(knob.read(seen))}"


def unconfirmed(config: Config, seen: Seen) -> list[str]:
    """As `unobserved`, and each setting which that run had without showing what it does."""
    said = [
        f"{_asked_for(name, config[name])}, and {doubt}"
        for name, doubt in doubts(config, seen).items()
    ]
    return unobserved(config, seen) or said


def doubts(config: Config, seen: Seen) -> dict[str, str]:
    """Why a run that had these settings of `config` does not show what they do."""
    found = {name: by_name(name).doubted(seen) for name, value in config.items() if value}
    return {name: doubt for name, doubt in found.items() if doubt}


def blamed(config: Config, reason: str) -> Config:
    """The settings of `config` whose doing its failure is; all of them where that is not said."""
    return {
        name: value
        for name, value in config.items()
        if by_name(name).is_to_blame(reason) or reason.startswith(_asked_for(name, value))
    } or config


def _asked_for(name: str, value: Value) -> str:
    return f"{name} = {_as_toml(value)} was asked for"


def _as_toml(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
