"""Where a step's time and memory went, and the most that each class of changes could gain."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.machine import Machine
from autotune.profiling.gpu import GpuProfile
from autotune.workload.found import Again, BusyLine, Denormals, Operations, SavedBlock
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Window, page_faults_per_second

# The ceiling that no measurement gives, but the device's own limits.
ROOFLINE = "roofline"

# Doubts that are said before any figure: other programs had the processors, and what was timed is
# no training.
PROCESSORS_TAKEN, NOT_FINITE = "processors taken", "not finite"
NOT_ALL_FINITE = "not all finite"
TOO_FEW_STEPS, SPED_UP, SLOWED_DOWN = "too few steps", "sped up", "slowed down"
SHORT_RUN, FIRST_EPOCH, FILLING = "short run", "first epoch", "cache filling"
TRACKER_OFF, NO_VALIDATION = "tracker off", "no validation"
ROUNDED_PREDICTIONS = "rounded predictions"  # of a number format that is tried
# Doubts of a training whose later steps may be others than those that are timed.
MORE_PASSES, THAWS, REPLACED = "more passes", "thaws later", "weights replaced"
LATER_STAGE, LATER_LOADER, LATER_SAMPLES = "later stage", "later loader", "later samples"
MOVED_CHANCE, OTHER_SIZES = "moved chance", "other sizes"
_OTHERS_LATER = frozenset(
    (
        *(MORE_PASSES, THAWS, REPLACED, LATER_STAGE, LATER_LOADER, LATER_SAMPLES, MOVED_CHANCE),
        *(OTHER_SIZES, FIRST_EPOCH, FILLING),
    )
)
FROM_STORAGE, FROM_MEMORY = "read from storage", "timed from memory"
FIRST_READ = "first read"
TAKEN_AGAIN = "memory given back and taken again"
# Those of a machine that may have stood still, of a program that came to its speed meanwhile, or
# that was the first to read its samples: no speed to hold others against.
SHAKEN = frozenset({PROCESSORS_TAKEN, TOO_FEW_STEPS, SPED_UP, FROM_STORAGE, FIRST_READ})


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason not to trust what was measured ("unstable", "processors taken"), and advice."""

    name: str
    evidence: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The throughput that the loop would reach if one thing cost nothing, from an ablation.

    `name` is "compute" (a batch replayed on the device: data and copies are free), "host" (a batch
    on the host, copied each step: only data is free) or "data" (the loader drained with no model:
    training is free); or it is "roofline", the device at its published peak.
    `samples_per_second` and `max_gain` (its ratio to the program as it is) are
    None where it was not measured, and `reason` says why.
    """

    name: str
    samples_per_second: float | None
    max_gain: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest batch of an epoch, where batches were seen to differ in size.

    Attributes:
        looked_at: batches of an epoch that were looked at.
        of: that it has; None where nobody knows.
        shapes: of the tensors of the largest.
        samples: in it.
        elements: numbers in it.
        usual_elements: in the first that was drawn.
        tried: elements and peak bytes of the batches that were trained on, the largest not always
            among them; as long as nothing is freed in between, by an allocator of the device's.
        fits: whether training on it was seen to fit; None where that was not tried.
        reason: why it was not tried, or not looked for.
    """

    looked_at: int = 0
    of: int | None = None
    shapes: tuple[str, ...] = ()
    samples: int = 0
    elements: int = 0
    usual_elements: int = 0
    tried: tuple[tuple[int, int], ...] = ()
    fits: bool | None = None
    reason: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all batches of an epoch were looked at."""
        return self.of is not None and self.looked_at >= self.of

    def peak_bytes(self, fixed_bytes: int) -> int | None:
        """The peak of a step on it: as it was measured or, where it was not or there was no memory
        for it, by a line through what was, or through `fixed_bytes`, which a step takes whatever
        its batch. Of what grows faster (attention) the line is the least.
        """
        peaks = dict(self.tried)
        if self.elements in peaks and self.fits:
            return max(peaks.values())
        if not peaks or not self.elements:
            return None
        (few, low), (many, high) = sorted({0: fixed_bytes, **peaks}.items())[-2:]
        slope = max(0.0, (high - low) / (many - few))
        return int(max(peaks.values()) + slope * max(0, self.elements - many))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes at the peak, by what holds them; None is "not measured". Of a program on a CPU the peak
    is its own process's and what those that it has started need beside it.

    Gradients and activations are each counted where there are most of them, which need not be at
    the same moment; `workspace_bytes` is what then is left of the peak (libraries' workspaces,
    results that are soon given up, autocast's copies of weights), `reserved_bytes` the most that
    the allocator took from the device, `allocated_bytes` the most of it that was in use since the
    run began (a validation, cuDNN's choosing: it keeps what they took), `blocks` what computing
    each repeated block of the model again would free, and cost. `capacity_bytes` is what the device
    has, or less where that `is_limit` set by the user. `largest` is the largest batch that its data
    gives, where batches differ in size: all else is of those that came while it was timed.
    """

    peak_bytes: int | None
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int | None
    capacity_bytes: int
    workspace_bytes: int | None = None
    reserved_bytes: int | None = None
    allocated_bytes: int | None = None
    blocks: tuple[SavedBlock, ...] = ()
    is_limit: bool = False
    largest: LargestBatch | None = None

    @property
    def most_bytes(self) -> int | None:
        """What the program takes at the most: its peak, or that of a step on the largest batch of
        its data where that is more; None where the peak was not measured.
        """
        if self.peak_bytes is None or self.largest is None:
            return self.peak_bytes
        fixed = self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes
        there = self.largest.peak_bytes(fixed) or 0
        least = self.capacity_bytes if self.largest.fits is False and not self.is_limit else 0
        return max(self.peak_bytes, there, least)

    @property
    def growth(self) -> float:
        """How much more a step on the largest batch keeps for backward than those that were timed;
        1.0 where that is not known.
        """
        if self.most_bytes is None or self.peak_bytes is None or not self.activation_bytes:
            return 1.0
        return 1 + (self.most_bytes - self.peak_bytes) / self.activation_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profiled program on one machine.

    Attributes:
        samples_per_second: the program as it is, samples over wall of its training loop.
        interval: 95 % interval of `samples_per_second`.
        step_seconds: mean wall of one optimizer step.
        phases: share of the step by phase name, "other" included; they sum to 1.
        not_measured: phase or figure that was not seen, with the reason.
        ceilings: the three ablations; on a GPU, its roofline too.
        data_processor_share: processor seconds per wall second of the drained loader in the process
            that runs it: near 1 decoding keeps a core busy, near 0 it waits (disk, network); None
            without a loader.
        processors_used: processor seconds per wall second of the training process, as it is.
        validation_share: wall outside training, as a share of the whole.
        startup_seconds: from the program's start to its first step.
        compiling_seconds: of these, what torch.compile took, into an empty cache: later starts, and
            the program's own where its cache is kept, find most of it done.
        overhead_share: what watching cost, as a share of a step; None where nobody knows.
        windows: the raw windows that all of this is computed from.
        ended_early: the program came to its own end while it was profiled.
        probes: what a short calculation on the device says, by name ("bf16_speedup": 0.2, and how
            many times as long it takes for a number that is denormal: "denormal_times": 1.2), and
            how many times as fast a kept batch is computed with one thread ("one_thread": 1.3), and
            the program is with one thread for NumPy's linear algebra (`ONE_BLAS_THREAD`) and
            without anomaly detection (`NO_ANOMALY`).
        doubts: reasons not to trust these figures.
        lines: the program's own functions that a step waits for, those that take most first.
        operations: that a step starts, on a CPU; None where they were not counted.
        denormals: numbers of a step on a CPU that are too small for their format; None where that
            was not looked at.
        again: what its models give of one batch in another order or format; None where that was not
            looked at.
        gpu: what only a GPU's profile has; None on a CPU.
        idle_gpu: name of the GPU that is there, where the program trains on the CPU; "" otherwise.
    """

    machine: Machine
    seen: Seen
    samples_per_second: float
    interval: tuple[float, float]
    step_seconds: float
    phases: Mapping[str, float]
    not_measured: Mapping[str, str] = field(default_factory=dict)
    ceilings: tuple[Ceiling, ...] = ()
    memory: Memory
    data_processor_share: float | None = None
    processors_used: float = 1.0
    validation_share: float = 0.0
    startup_seconds: float = 0.0
    compiling_seconds: float = 0.0
    overhead_share: float | None = None
    windows: tuple[Window, ...] = ()
    ended_early: bool = False
    probes: Mapping[str, float] = field(default_factory=dict)
    budget_seconds: float = 300.0
    doubts: tuple[Doubt, ...] = ()
    lines: tuple[BusyLine, ...] = ()
    operations: Operations | None = None
    denormals: Denormals | None = None
    again: Again | None = None
    gpu: GpuProfile | None = None
    idle_gpu: str = ""

    @property
    def page_faults_per_second(self) -> float | None:
        """Pages of memory that the program as it is was given in a second; None if unknown."""
        return page_faults_per_second([each for each in self.windows if each.mode == AS_IS])

    @property
    def changes_later(self) -> bool:
        """Whether later steps may be others than those that were timed, as the program shows."""
        return any(doubt.name in _OTHERS_LATER for doubt in self.doubts)

    @property
    def ends_too_soon(self) -> bool:
        """Whether the program came to its own end before its speed could be told."""
        return self.ended_early and self.doubt(TOO_FEW_STEPS) is not None

    def ceiling(self, name: str) -> Ceiling | None:
        """The ceiling called `name`, None where the profile has none."""
        return next((ceiling for ceiling in self.ceilings if ceiling.name == name), None)

    def doubt(self, name: str) -> Doubt | None:
        """The doubt called `name`, None where there is none."""
        return next((doubt for doubt in self.doubts if doubt.name == name), None)
