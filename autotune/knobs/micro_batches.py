"""Each batch is trained in parts, whose gradients add up to one optimizer step.

What it does
    Splits every batch into k micro-batches, weighs the loss of each by its share of the samples,
    and steps the optimizer after the k-th. The effective batch is the same.

When it helps
    When a whole batch's activations do not fit in memory, or in a CPU's caches.

What it costs
    k times as many operations to launch, each on fewer samples: on a GPU with memory to spare it is
    slower.

What it changes
    The order of a sum, and dropout's random numbers; the loss must be a mean over its batch. Layers
    that look across the batch (batch norm) would see other batches: it is never offered for them.
"""

import math

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import (
    NO_LOADER,
    NO_OPTIMIZER,
    compute_seconds,
    little_from_computing,
    made_otherwise,
    on_cuda,
    plenty_of_memory,
)
from autotune.knobs.knob import Choices, Expectation, Knob, Semantics, Skip, Value
from autotune.profiling.memory_model import SCARCE_MEMORY, line_of
from autotune.profiling.profile import Profile
from autotune.source.edits import Accumulate, Edit
from autotune.workload.program.framework import OWN_LOOPS, framework_of
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

_PARTS = (2, 4)
# Samples that a micro-batch keeps at least: below, operations cost more to launch than to compute.
_FEWEST_SAMPLES = 8
# Seconds of forward and backward under which a batch is not split on a CPU, an estimate: even 80 ms
# (32 images through a small ResNet) gained no more from halves than measurements scatter.
_SHORT_SECONDS = 0.02


class MicroBatches(Knob):
    name = "micro_batches"
    relieves = frozenset({Bottleneck.MEMORY, Bottleneck.COMPUTE})
    semantics = Semantics.EQUIVALENT
    admits = range(1, 1025)
    only_beside_own = frozenset({"batch_size"})

    def domain(self, profile: Profile) -> Choices | Skip:
        seen = profile.seen
        if reason := _batches_kept_whole(seen) or _steps_kept_whole(seen):
            return Skip(reason=reason, impossible=True)
        plenty, seconds = plenty_of_memory(profile), compute_seconds(profile)
        if plenty and on_cuda(profile):
            return Skip(reason=f"{plenty}, and smaller batches only keep the GPU less busy")
        if plenty and seconds < _SHORT_SECONDS:
            return Skip(
                reason=f"{_what_was_timed(profile)} {1000 * seconds:.1f} ms: smaller batches would "
                "hardly gain what launching them costs"
            )
        if reason := little_from_computing(profile):
            return Skip(reason=reason)
        size = seen.loader.batch_size if seen.loader else None
        values = _worth_trying(profile, size or 0)
        if not values:
            return Skip(
                reason=f"a batch of {size} cannot be split into two or four equal parts of at "
                f"least {_FEWEST_SAMPLES} samples"
            )
        return Choices(own=1, values=(1, *values))

    def expects(self, value: Value, profile: Profile) -> Expectation:
        # Smaller products, each operation launched more often; but smaller ones fit into caches.
        return Expectation(phase="compute", log_mean=0.05 * math.log2(int(value)), sd=0.15)

    def read(self, seen: Seen) -> Value:
        return seen.micro_batches

    def apply(self, setup: Setup, value: Value) -> None:
        setup.micro_batches = int(value)

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        if int(value) <= 1:
            return ()
        if seen.loader is None:
            return (Accumulate(steps=int(value)),)
        shared, drop_last = seen.loader.shared_place, seen.loader.drop_last
        return (Accumulate(steps=int(value), shared=shared, drop_last=drop_last),)


def _worth_trying(profile: Profile, size: int) -> tuple[int, ...]:
    """Into how many parts: the fewest that fit where memory is scarce, else halves and quarters."""
    equal = [k for k in range(2, size // _FEWEST_SAMPLES + 1) if size % k == 0]
    line = line_of(profile.memory, size)
    if line is None or plenty_of_memory(profile):
        return tuple(k for k in equal if k in _PARTS)
    largest = line.largest(SCARCE_MEMORY * profile.memory.capacity_bytes)
    return tuple(k for k in equal if size // k <= largest)[:2] or tuple(equal[-1:])


def _what_was_timed(profile: Profile) -> str:
    """Whose time `compute_seconds` gives, with the verb."""
    told_apart = {"forward", "backward"} <= profile.phases.keys()
    return "forward and backward take" if told_apart else "a step takes"


def _batches_kept_whole(seen: Seen) -> str:
    """Why the loader's batches could not be split."""
    if seen.loader is None:
        return NO_LOADER
    if seen.loader.batch_size == 1:
        return "its loader has a batch_size of 1: there is nothing to split"
    if seen.loader.iterable:
        return (
            "the dataset is an IterableDataset: how many batches it gives, and how large the last "
            "one is, is not known for certain"
        )
    if reason := made_otherwise(seen.loader):
        return reason
    if seen.loader.beside:
        return "a step draws from several loaders: parts would not meet those that belong to them"
    framework = framework_of(seen.places)
    if framework in OWN_LOOPS:
        return f"{framework} runs the loop and counts its batches: parts would count as batches"
    if seen.loader.ahead:
        return (
            "each batch is drawn before the step on the one before it, and a step could not tell "
            "whose parts it has"
        )
    return ""


def _steps_kept_whole(seen: Seen) -> str:
    """Why a step could not be split."""
    if not seen.optimizers:
        return f"{NO_OPTIMIZER}: which backward pass ends a step cannot be told"
    if seen.optimizers != 1:
        return f"{seen.optimizers} optimizers have stepped: which loss is whose cannot be told"
    if seen.optimizer is not None and seen.optimizer.closure:
        return "the optimizer calls the program's closure, which computes a whole batch"
    if seen.micro_batches != 1 or seen.backwards_per_step > 1:
        return "some steps, or all, have several backward passes already"
    if seen.backwards_per_step != 1:
        return (
            f"a step had {seen.backwards_per_step:.2f} backward passes on average, instead of one"
        )
    if seen.scaler:
        return "the program's own GradScaler would unscale the gradients of each part again"
    if any(model.batch_norms for model in seen.models):
        return "the model has batch norm: over smaller batches it would be another training"
    return ""
