"""Processes that load batches beside the training.

What it does
    Sets `DataLoader(num_workers=...)`: with k workers, up to k batches are being loaded while a
    step computes.

When it helps
    When training waits for data. Decoding that keeps a core busy gains up to the cores there are;
    reads that wait (disk, network) gain far beyond: 16 workers gave 18x on two cores.

What it costs
    A process, its memory and its start for each worker, and a copy of each batch through shared
    memory. Where samples cost microseconds, or the cores are taken by training, workers slow the
    program down.

What it changes
    Random augmentation draws from other streams of the same distribution. What a dataset remembers
    between samples (a cache it fills) is remembered by each worker for itself. Before they are
    tried, what workers deliver is compared with what the program is given as it is: an
    IterableDataset that does not share its samples out, or a file that processes read over each
    other, keeps the program at its own number. What a sample raises comes out of a worker with a
    traceback for its text: where the training goes by that, there are none; nor where it keeps
    tensors of batches for good, which hold open files.
"""

from autotune.diagnosis import Bottleneck
from autotune.knobs.evidence import NO_LOADER, little_from_loading, loader_waits, most_workers
from autotune.knobs.knob import Choices, Knob, Semantics, Skip, Value
from autotune.knobs.queue import TOO_MUCH, most_queued_batches, queued_by_a_worker
from autotune.profiling.profile import FILLING, Profile
from autotune.source.edits import Edit, LoaderArgument
from autotune.workload.seen import Seen
from autotune.workload.setup import Setup

# Workers beyond what the compute ceiling could swallow, as a factor: that ceiling is too low where
# the machine was busy as it was measured, and rises with what other knobs gain.
_HEADROOM = 4


class NumWorkers(Knob):
    name = "num_workers"
    relieves = frozenset({Bottleneck.DATA})
    semantics = Semantics.EQUIVALENT
    admits = range(257)

    def domain(self, profile: Profile) -> Choices | Skip:
        loader, own = profile.seen.loader, self.read(profile.seen)
        if loader is None:
            return Skip(reason=NO_LOADER, impossible=True)
        if profile.doubt(FILLING):
            return Skip(
                reason="the dataset kept more and more while it was timed, as a cache does: each "
                "worker would fill one of its own",
            )
        fitting = most_queued_batches(profile) // queued_by_a_worker(profile.seen)
        if fitting < 1:
            return Skip(
                reason=f"the batches that one worker has ready would take {TOO_MUCH}",
                impossible=True,
            )
        if reason := little_from_loading(profile):
            return Skip(reason=reason)
        values = {0, int(own), *_steps_up_to(min(_useful_workers(profile), fitting))}
        return Choices(own=own, values=tuple(sorted(values)))

    def read(self, seen: Seen) -> Value:
        return seen.loader.num_workers if seen.loader else 0

    def apply(self, setup: Setup, value: Value) -> None:
        setup.loader["num_workers"] = value

    def edits(self, value: Value, seen: Seen) -> tuple[Edit, ...]:
        had_workers = self.read(seen) != 0
        edits = [
            LoaderArgument(
                name="num_workers",
                code=str(value),
                had_workers=had_workers,
                others=seen.loaders_beside,
            )
        ]
        if not value and seen.loader is not None:  # DataLoader refuses both without workers
            if seen.loader.prefetch_factor is not None:
                edits.append(LoaderArgument(name="prefetch_factor", code="None"))
            if seen.loader.persistent_workers:
                edits.append(LoaderArgument(name="persistent_workers", code="False"))
        return tuple(edits)


def _useful_workers(profile: Profile) -> int:
    """The most workers that could help: by where loading spends its time, and by what training
    could swallow.
    """
    most = most_workers(profile)
    compute, data = profile.ceiling("compute"), profile.ceiling("data")
    if not loader_waits(profile) or compute is None or data is None:
        return most
    if not compute.samples_per_second or not data.samples_per_second:
        return most
    own = profile.seen.loader.num_workers if profile.seen.loader else 0
    each = data.samples_per_second / max(1, own)
    needed = _HEADROOM * compute.samples_per_second / each
    return next((step for step in _steps_up_to(most) if step >= needed), most)


def _steps_up_to(most: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and `most` itself."""
    return (*(2**power for power in range(most.bit_length()) if 2**power < most), most)
