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
    """An attribute that making a batch sets, or what it holds."""

    name: str
    kinds: tuple[str, ...]  # names of its object's class, and of the user's that it derives from
    known_as: frozenset[str]  # names of its object where it was found: "collate_fn", "transform"
    collates: bool = False  # a method of its object makes the batches, as one of a trainer's may
    chooses: bool = False  # what chooses samples sets it, in the process that trains
    steers: bool = False  # making a batch reads it for more than to count it on


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftVariable:
    """A variable that making a batch sets, or what it holds."""

    name: str
    files: frozenset[str]  # whose variable it is, by the functions that use it
    enclosed: bool = False  # it is a function's, not a module's
    replaced: bool = False  # it is given another value; otherwise that is changed
    by_item: bool = False  # only who reads its items reads what was left: others look at a log


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
    """What the training loader gave when it was drawn from the start of an epoch."""

    batches: tuple[Digests, ...]  # in the order in which they came
    ended: bool  # the epoch was over; otherwise more was to come
    # What the dataset of the training process holds that processes cannot share, but for
    # connections in the place of which each worker opened its own.
    holdings: tuple[Holding, ...] = ()
    moved: tuple[str, ...] = ()  # open files of the dataset whose position the workers moved
    # A batch of a loader without workers was another once the next one was given: both are in the
    # same memory.
    overwritten: bool = False
    # File and line where making a sample asks torch for a number that is another in each worker, by
    # the function that gives it, of a loader without workers.
    asked: Mapping[str, str] = field(default_factory=dict)
    # Digests of what the samples are made from in the training process, before the draw; comparable
    # within one run. And those that are numbers.
    kept: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    # Those that the program may set, under each name that it has for them.
    settings: tuple[Setting, ...] = ()
    set_by_makers: tuple[str, ...] = ()  # of those, to which making a batch ever gives a value
    # Models with weights, optimizers and schedulers by which batches are made or samples chosen.
    learning: tuple[str, ...] = ()
    goes_on: Mapping[str, str] = field(default_factory=dict)  # what samples go on with, and how
    streams: tuple[str, ...] = ()  # the process's random numbers that it draws: Python's, NumPy's
    read: tuple[str, ...] = ()  # what the draw itself changed of what is kept
    left: Left = field(default_factory=Left)  # what that is to the rest of the program, if asked
    # How much the dataset of a loader without workers keeps, by name, where only that was asked.
    remembered: Mapping[str, int] = field(default_factory=dict)
    position: tuple[int, int] = (0, 0)  # the training's own iteration, and batches that it gave
    # Of a stream: the steps after which a scheduler of the program (`OneCycleLR`) ends in an error.
    lasts: int | None = None


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    """The names of what a dataset keeps that has changed."""
    return tuple(name for name in before if name in after and before[name] != after[name])


def say(holdings: Sequence[Holding]) -> str:
    """`holdings` in words: "a lock (`dataset.lock`) and an open file (`dataset.file`)"."""
    return " and ".join(f"{_SAID[each.kind]} (`{each.path}`)" for each in holdings)
