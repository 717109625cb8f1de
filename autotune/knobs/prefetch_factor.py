"""Batches that each loader worker has ready in advance.

What it does
    Sets `DataLoader(prefetch_factor=...)`; torch's own is 2.

When it helps
    When there are workers, and training still waits for an uneven store: a longer queue bridges a
    slow read. It cannot make loading faster.

What it costs
    Memory: workers x prefetch_factor batches wait in shared memory.

What it changes
    Nothing: the same batches come in the same order.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import (
    NO_LOADER,
    SMALLEST_GAIN,
    little_from_loading,
    loader_waits,
)
from autotune.knobs.knob import Choices, Config, Expectation, Knob, Semantics, Skip, Value
from autotune.knobs.queue import TOO_MUCH, most_queued_batches, queued_by_a_worker
from autotune.profiling.profile import Profile
from autotune.source.edits import Edit, LoaderArgument
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

_LONGER = 4


class PrefetchFactor(Knob):
    name = "prefetch_factor"
    relieves = frozenset({Bottleneck.DATA})
    semantics = Semantics.IDENTICAL
    admits = range(1, 257)

    def domain(self, profile: Profile) -> Choices | Skip:
        loader, own = profile.seen.loader, int(self.read(profile.seen))
        if loader is None:
            return Skip(reason=NO_LOADER, impossible=True)
        if loader.num_workers == 0:
            which = f"the loader of {loader.dataset}" if loader.beside else "the program's loader"
            reason = f"{which} has no workers; those that are tried have torch's own queue"
            return Skip(reason=reason)
        if reason := little_from_loading(profile):
            return Skip(reason=reason)
        if profile.phases.get("data", 1.0) < SMALLEST_GAIN:
            reason = "training hardly waits for data: a longer queue gains next to nothing"
            return Skip(reason=reason)
        if profile.data_processor_share is None:
            return Skip(reason="whether loading waits or computes was not measured")
        if not loader_waits(profile):
            reason = "by itself the loader computes rather than waits: a longer queue is no help"
            return Skip(reason=reason)
        if own >= _LONGER:
            return Skip(reason=f"the queue is long already: {own} batches for each worker")
        if most_queued_batches(profile) < _LONGER * loader.num_workers:
            return Skip(reason=f"a longer queue of batches would take {TOO_MUCH}")
        return Choices(own=own, values=(own, _LONGER))

    def active(self, chosen: Config) -> bool:
        return chosen.get("num_workers") != 0

    def expects(self, value: Value, profile: Profile) -> Expectation:
        return Expectation(phase="data")

    def read(self, seen: Seen) -> Value:
        return queued_by_a_worker(seen)

    def apply(self, setup: Setup, value: Value) -> None:
        setup.loader["prefetch_factor"] = value

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        return (LoaderArgument(name="prefetch_factor", code=str(value)),)
