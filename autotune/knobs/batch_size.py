"""More samples in each batch, and so in each optimizer step.

What it does
    Builds the training `DataLoader` with twice, four or eight times its batch size, as far as
    memory has room and an epoch keeps 8 steps.

When it helps
    When steps are so short that launching operations takes longer than computing them, or when the
    optimizer takes a large share of each step: both are paid once a step, however many samples it
    has.

What it costs
    Memory for the activations of the further samples, and more samples to come as far: an epoch has
    fewer steps, and a model may need more epochs.

What it changes
    It is another training. The learning rate may have to grow with the batch, in proportion at the
    most and with a warm-up (Goyal et al. 2017, arXiv 1706.02677), and schedules that are counted in
    steps last longer. It is only tried with `--allow different`, and then instead of micro-batches,
    which are parts of the program's own batch.
"""

import math

from autotune.diagnosis import Bottleneck
from autotune.diagnosis.validation import steps_of_an_epoch
from autotune.knobs.evidence import (
    NO_LOADER,
    compute_seconds,
    little_from_computing,
    little_from_stepping,
    made_otherwise,
    on_cuda,
)
from autotune.knobs.knob import Choices, Config, Expectation, Knob, Semantics, Skip, Value
from autotune.knobs.queue import TOO_MUCH, most_queued_batches, queued_by_a_worker
from autotune.profiling.memory_model import SCARCE_MEMORY, MemoryLine, line_beyond
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, LoaderArgument
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

_TIMES, _TIMES_ON_A_CPU = (2, 4, 8), (2, 4)
_FEWEST_STEPS = 8  # of an epoch: with fewer, a schedule by epochs is a few jumps
# Of a CPU's memory that has no limit: other programs have the rest.
_SHARE_OF_MAIN_MEMORY = 0.5
# What launching the operations of a forward and backward pass takes, however large a batch is: some
# hundreds of them, 5 to 20 us each; and the most that it can be of them. Both chosen, not measured.
_LAUNCHING_SECONDS, _MOST_LAUNCHING = 0.002, 0.9


class BatchSize(Knob):
    name = "batch_size"
    relieves = frozenset({Bottleneck.OVERHEAD, Bottleneck.OPTIMIZER, Bottleneck.COMPUTE})
    semantics = Semantics.DIFFERENT
    admits = range(1, (1 << 20) + 1)

    def domain(self, profile: Profile) -> Choices | Skip:
        if reason := _cannot_grow(profile.seen):
            return Skip(reason=reason, impossible=True)
        reason = little_from_computing(profile)
        if reason and little_from_stepping(profile):
            return Skip(reason=reason)
        times, reason = min(_by_memory(profile), _by_epoch(profile), _by_queue(profile))
        own = int(self.read(profile.seen))
        tried = _TIMES if on_cuda(profile) else _TIMES_ON_A_CPU
        values = [own * each for each in tried if each <= times and own * each in self.admits]
        return Choices(own=own, values=(own, *values)) if values else Skip(reason=reason)

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # Of the forward and backward pass alone: that the optimizer steps less often, the model of
        # the loop knows.
        share = _launching_share(profile)
        factor = share / growth({self.name: value}, profile.seen) + 1 - share
        return Expectation(phase="compute", log_mean=math.log(factor), sd=0.25)

    def otherwise(self, value: Value, seen: Seen) -> str:
        return (
            f"A step trains on a batch of {value} samples instead of {self.read(seen)}. The "
            "learning rate may have to grow with it, in proportion at the most (Goyal et al. 2017, "
            "arXiv 1706.02677); an epoch has fewer steps, so schedules that are counted in steps "
            "last longer. How well it learns was not compared."
        )

    def read(self, seen: Seen) -> Value:
        return (seen.loader.batch_size if seen.loader else None) or 0

    def apply(self, setup: Setup, value: Value) -> None:
        setup.loader[self.name] = value

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        shared = seen.loader is not None and seen.loader.shared_place
        return (LoaderArgument(name=self.name, code=str(value), shared=shared),)


def growth(config: Config, seen: Seen) -> float:
    """How many times as many samples a batch has with `config` as in the program, which was
    `seen`.
    """
    own = seen.loader.batch_size if seen.loader else None
    return int(config.get(BatchSize.name, own)) / own if own else 1.0


def _cannot_grow(seen: Seen) -> str:
    """Why the loader's batches could not be larger; "" where they could."""
    if seen.loader is None:
        return NO_LOADER
    if reason := made_otherwise(seen.loader):
        return reason
    if seen.loader.beside:
        return "a step draws from several loaders: larger batches would not meet the others'"
    if seen.loader.batch_size == 1 and not any(
        "[1," in each or "[1]" in each for each in seen.batch
    ):
        return "its one sample comes without a dimension for more: a larger batch may be none"
    return ""


def _launching_share(profile: Profile) -> float:
    """The share of forward and backward that is no longer where a batch is larger: on a GPU of
    which that is known, what leaves it idle.
    """
    if profile.gpu is not None and profile.gpu.busy_share is not None:
        return min(_MOST_LAUNCHING, max(0.0, 1 - profile.gpu.busy_share))
    seconds = compute_seconds(profile)
    return min(_MOST_LAUNCHING, _LAUNCHING_SECONDS / seconds) if seconds > 0 else 0.0


def _by_memory(profile: Profile) -> tuple[float, str]:
    """How many times as large a batch fits into memory, and why no larger one does."""
    memory, size = profile.memory, profile.seen.loader.batch_size if profile.seen.loader else None
    if not size or memory.most_bytes is None or memory.capacity_bytes <= 0:
        return 0.0, "how much memory the program needs was not measured"
    line = line_beyond(profile)
    if line is None and profile.seen.shapes > 1 and on_cuda(profile):
        return 0.0, "batches differ in size, and what a larger one takes is not known"
    # Where it is not known what grows, all of it may.
    reason = f"a batch of {_TIMES[0] * size} would need too much memory"
    if line is None:
        line = MemoryLine(fixed_bytes=0.0, bytes_per_sample=memory.most_bytes / size)
        reason += ", unless only part of what is in use grows with it, which is not known"
    filled = SCARCE_MEMORY if on_cuda(profile) or memory.is_limit else _SHARE_OF_MAIN_MEMORY
    times = line.largest(filled * memory.capacity_bytes) / size
    return times, reason


def _by_epoch(profile: Profile) -> tuple[float, str]:
    batches = profile.seen.loader.length if profile.seen.loader else None
    if batches is None:
        return math.inf, ""
    steps = min(batches, steps_of_an_epoch(profile.seen))
    return steps / _FEWEST_STEPS, (
        f"an epoch has {steps:.0f} steps: with larger batches it would have fewer than "
        f"{_FEWEST_STEPS}"
    )


def _by_queue(profile: Profile) -> tuple[float, str]:
    workers = profile.seen.loader.num_workers if profile.seen.loader else 0
    times = most_queued_batches(profile) / max(1, workers) / queued_by_a_worker(profile.seen)
    return times, f"larger batches that workers have ready would take {TOO_MUCH}"
