"""A stretch of a live run, timed: what the running program reports to who measures it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autotune.source.edits import Place
from autotune.workload.seen import Seen

# How the program's loop is fed during a window: its own way; one batch kept on the device, replayed
# (the compute ceiling), or the same computed by one thread (its own way where it has no loader);
# one batch kept on the host, copied each step; the loader alone, drained with no model; or each
# batch twice, whole and in micro-batches, to see whether both are the same step (not for timing,
# and the last thing that a run is asked for).
AS_IS, REPLAY_DEVICE, REPLAY_HOST, DRAIN = "as_is", "replay_device", "replay_host", "drain"
ONE_THREAD = "one_thread"
# Its own way, with one thread for NumPy's linear algebra.
ONE_BLAS_THREAD = "one_blas_thread"
# Its own way, without anomaly detection.
NO_ANOMALY = "no_anomaly"
# Its own way, with averages of the optimizer's that dwindle made denormal numbers, or zero.
DENORMAL, ZEROED = "denormal", "zeroed"
REHEARSE = "rehearse"
# Or the largest batches that were found beforehand, one after another, each for a window.
LARGEST = "largest"

# What is looked for in a few steps that are not timed, since looking slows them down: the device's
# time line, the lines that wait for the device, floating point operations, what is kept for the
# backward pass, the program's own functions that a step waits for, what of those inside its model
# runs between torch's operations, weights that go without a gradient, and what a short
# number format rounds far, how many operations a step starts, which numbers are denormal or become
# it, and what models give of the same batch in another order or format.
TRACE, SYNCS, FLOPS, SAVED, LINES = "trace", "syncs", "flops", "saved", "lines"
BETWEEN, GRADIENTS, ROUNDING = "between", "gradients", "rounding"
OPERATIONS, DENORMALS, AGAIN = "operations", "denormals", "again"
# What loaders have given the program by the end of a step, and which of its functions run in one.
GIVEN, RUNNING = "given", "running"
# Whether results are others with zeros in the place of denormal numbers.
FLUSHING = "flushing"

# What a step's time is split into; the rest of the wall is "other". All in seconds of the training
# loop's own time.
PHASES = ("data", "copy", "forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocator:
    """What torch's allocator of the device says since the run began; None where it does not
    (`torch.cuda.memory_stats`; another allocator counts less).

    `reserved_peak_bytes` is of the window alone, `allocated_peak_bytes` of the run.
    `inactive_split_bytes` lie free between blocks in use. `retries` counts how often it had to give
    its cache back to the driver and try again, for which the device is waited for.
    """

    reserved_peak_bytes: int | None = None
    allocated_peak_bytes: int | None = None
    reserved_bytes: int | None = None
    allocated_bytes: int | None = None
    inactive_split_bytes: int | None = None
    retries: int | None = None
    out_of_memories: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive optimizer steps of one live run, edges drained. All times in seconds; None is
    what is not known.
    """

    mode: str  # how the loop was fed, one of those above
    steps: int  # of the optimizer; batches drawn, for `DRAIN`
    samples: int  # trained on; drawn, for `DRAIN`
    seconds: float  # wall from edge to edge, without `validation_seconds`
    validation_seconds: float = 0.0  # outside training: forward without gradients between steps
    validations: int = 0  # how many times the program left its training for that
    step_seconds: tuple[float, ...] = ()  # each step's wall, in order
    # By phase, over the whole window; one that was not seen is absent, and all are where nobody
    # asked for them.
    phases: Mapping[str, float] = field(default_factory=dict)
    # How often a GradScaler left the weights as they were, since a gradient was infinite or nan.
    skipped_steps: int = 0
    # How many forward passes that keep gradients, and how many steps had so many; without those of
    # validations, as far as they are told apart.
    forwards: tuple[tuple[int, int], ...] = ()
    # Part of `seconds` in which a model was called without gradients between every two steps:
    # evaluation, rollouts, pseudo-labels.
    gradless_seconds: float = 0.0
    cpu_seconds: float = 0.0  # processor time of the training process, all threads
    worker_cpu_seconds: float = 0.0  # and of those that it has started: loader workers
    delayed_seconds: float = 0.0  # its threads were ready to run and got no processor
    stolen_seconds: float = 0.0  # processor time that a virtual machine's host took from the run
    others_seconds: float | None = None  # what all else used of the processors that it may use
    read_bytes: int | None = None  # from storage: what was not found in memory
    page_faults: int | None = None  # how often the training process was given a page of memory
    threads: int = 0  # that compute an operation, as the program has set them; 0 if unknown
    # Of the steps since the window before, each of a run's first 200 and one in eight of those that
    # follow; nan where one is no number. And the learning rate that each was trained with, over all
    # groups of parameters; nan where it is no number that the host has.
    losses: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    # Of the device, in this window; of this process alone since the run began, on a CPU.
    peak_bytes: int | None = None
    allocator: Allocator | None = None  # of the device, at the window's end; None on a CPU
    # Where blocks of the program begin that it has not come to by the window's end, though its
    # steps have come to the block that the condition on them stands in; where that is looked at.
    not_come_to: tuple[Place, ...] = ()

    @property
    def samples_per_second(self) -> float:
        """Samples over wall; 0.0 for an empty window."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0


def forwards_of(windows: Sequence[Window]) -> Counter[int]:
    """How many steps of `windows` had so many forward passes."""
    found = Counter[int]()
    for window in windows:
        found.update(dict(window.forwards))
    return found


def as_one(windows: Sequence[Window]) -> Window:
    """Consecutive windows of one run as one."""
    spent = {
        phase: sum(window.phases.get(phase, 0.0) for window in windows)
        for phase in PHASES
        if any(phase in window.phases for window in windows)
    }
    return Window(
        mode=windows[0].mode,
        steps=sum(window.steps for window in windows),
        samples=sum(window.samples for window in windows),
        seconds=sum(window.seconds for window in windows),
        validation_seconds=sum(window.validation_seconds for window in windows),
        validations=sum(window.validations for window in windows),
        step_seconds=tuple(step for window in windows for step in window.step_seconds),
        phases=spent,
        skipped_steps=sum(window.skipped_steps for window in windows),
        forwards=tuple(sorted(forwards_of(windows).items())),
        gradless_seconds=sum(window.gradless_seconds for window in windows),
        cpu_seconds=sum(window.cpu_seconds for window in windows),
        worker_cpu_seconds=sum(window.worker_cpu_seconds for window in windows),
        delayed_seconds=sum(window.delayed_seconds for window in windows),
        stolen_seconds=sum(window.stolen_seconds for window in windows),
        others_seconds=None
        if any(window.others_seconds is None for window in windows)
        else sum(window.others_seconds or 0.0 for window in windows),
        page_faults=None
        if any(window.page_faults is None for window in windows)
        else sum(window.page_faults or 0 for window in windows),
        read_bytes=None
        if any(window.read_bytes is None for window in windows)
        else sum(window.read_bytes or 0 for window in windows),
        threads=max(window.threads for window in windows),
        losses=tuple(loss for window in windows for loss in window.losses),
        rates=tuple(rate for window in windows for rate in window.rates),
        peak_bytes=max((window.peak_bytes or 0 for window in windows), default=0) or None,
    )


def page_faults_per_second(windows: Sequence[Window]) -> float | None:
    """Of the training process, over windows that know them; None if none does."""
    known = [each for each in windows if each.page_faults is not None]
    seconds = sum(each.seconds + each.validation_seconds for each in known)
    faults = sum(each.page_faults or 0 for each in known)
    return faults / seconds if seconds else None


class LiveRun(Protocol):
    """A program that is running and waits, between its steps, for what to do next."""

    startup_seconds: float
    # Steps that come before it is warmed up, and how long they may take: a first epoch, in which a
    # cache in memory is filled.
    first_steps: int
    first_seconds: float

    def window(self, seconds: float, *, mode: str = AS_IS, steps: int = 1) -> Window:
        """Run for at least `seconds` and `steps` optimizer steps, and report.

        Raises:
            RunEnded: the program came to its own end, crashed, hung or was killed.
        """

    def seen(self) -> Seen:
        """What the run has been made of so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """How large a batch is: the shapes of its tensors, its samples and all its elements."""

    shapes: tuple[str, ...]
    samples: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the batches of an epoch are like, as far as they were looked at."""

    looked_at: int  # batches that were drawn
    of: int | None  # that an epoch has; None where nobody knows
    varied: bool  # whether they were of several sizes, an incomplete one left out
    first_elements: int
    # The first, the one with the largest sample and the one with most elements, those of them that
    # differ, from few elements to many.
    batches: tuple[BatchSize, ...] = ()
