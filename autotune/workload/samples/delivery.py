"""What a training loader delivers, as digests that two runs can be compared by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.source.refusals.settings import Setting

# One batch: for each of its leaves (tensors, arrays, texts, numbers) a digest of each of its rows;
# of the whole leaf where it has no row for each sample.
Digests = tuple[tuple[int, ...], ...]

# What a dataset may hold that processes cannot share.
CONNECTION, PIPES, FILE, LOCK = "connection", "pipes", "file", "lock"
THREADS, GPU = "threads", "gpu"
_SAID = {
    CONNECTION: "a connection",
    PIPES: "the pipes of a process that it talks to",
    FILE: "an open file",
    LOCK: "a lock",
    THREADS: "threads or processes of its own",
    GPU: "a tensor on the GPU",
}

# What making a sample may ask torch for, by the function's name.
INITIAL_SEED, NUM_THREADS = "initial_seed", "get_num_threads"

SAMPLER = "sampler"  # how the paths of what chooses samples begin
GIVEN_OUT = "batch"  # and of what a dataset keeps and batches hold

# How making a sample goes on with something: it takes the next of it, gives what is new to it the
# next number, or changes it.
TAKEN, NUMBERED, CHANGED = "taken", "numbered", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Something that a dataset holds and that processes cannot share: its kind, one of the six
    above, and where it is ("dataset.archive.fp").
    """

    kind: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAttribute:
    """An attribute that making a batch sets, or what it holds.

    Attributes:
        name: its own.
        kinds: names of its object's class, and of the user's that this one derives from.
        known_as: names of its object where it was found: "collate_fn", "transform".
        collates: a method of its object makes the batches, as one of a trainer's may.
        chooses: it is what chooses samples that sets it, in the process that trains.
        steers: making a batch reads it for more than to count it on.
    """

    name: str
    kinds: tuple[str, ...]
    known_as: frozenset[str]
    collates: bool = False
    chooses: bool = False
    steers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftVariable:
    """A variable that making a batch sets, or what it holds.

    Attributes:
        name: its own.
        files: whose variable it is, by the functions that use it.
        enclosed: it is a function's, not a module's.
        replaced: it is given another value; otherwise that is changed.
        by_item: only who reads its items reads what was left there: others look at a log.
    """

    name: str
    files: frozenset[str]
    enclosed: bool = False
    replaced: bool = False
    by_item: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What making a batch leaves behind in the process that makes it, and the functions that make
    it: the file and first line of each.
    """

    attributes: tuple[LeftAttribute, ...] = ()
    variables: tuple[LeftVariable, ...] = ()
    makers: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What the training loader gave when it was drawn from the start of an epoch.

    Attributes:
        batches: in the order in which they came.
        ended: the epoch was over; otherwise more was to come.
        holdings: what the dataset of the training process holds that processes cannot share, but
            for connections in the place of which each worker opened its own.
        moved: open files of the dataset whose position the loader's workers moved.
        overwritten: a batch of a loader without workers was another once the next one was given:
            both are in the same memory.
        asked: file and line where making a sample asks torch for a number that is another in each
            worker, by the function that gives it, of a loader without workers.
        kept: digests of what the samples are made from in the training process, before the draw;
            comparable within one run.
        numbers: those that are numbers, by name.
        settings: those that the program may set, under each name that it has for them.
        set_by_makers: those to which making a batch ever gives another value, by path.
        learning: the models with weights, optimizers and schedulers by which batches are made or
            samples chosen, by path.
        goes_on: what making a sample goes on with, by path, and how (`TAKEN` and its like).
        streams: the random numbers of the process that its functions draw, Python's and NumPy's.
        read: what the draw itself changed of it.
        left: what that is to the rest of the program, where it was asked for.
        remembered: how much the dataset of a loader without workers keeps, by name, where only that
            was asked.
        position: the training's own iteration and how many batches that has given.
        lasts: of a stream: the steps after which a scheduler of the program (torch's `OneCycleLR`)
            ends in an error; None where there is none.
    """

    batches: tuple[Digests, ...]
    ended: bool
    holdings: tuple[Holding, ...] = ()
    moved: tuple[str, ...] = ()
    overwritten: bool = False
    asked: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    settings: tuple[Setting, ...] = ()
    set_by_makers: tuple[str, ...] = ()
    learning: tuple[str, ...] = ()
    goes_on: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    left: Left = field(default_factory=Left)
    remembered: Mapping[str, int] = field(default_factory=dict)
    position: tuple[int, int] = (0, 0)
    lasts: int | None = None


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    """The names of what a dataset keeps that has changed."""
    return tuple(name for name in before if name in after and before[name] != after[name])


def say(holdings: Sequence[Holding]) -> str:
    """`holdings` in words: "a lock (`dataset.lock`) and an open file (`dataset.file`)"."""
    return " and ".join(f"{_SAID[each.kind]} (`{each.path}`)" for each in holdings)
