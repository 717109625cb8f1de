"""What a contestant's loader asks of its turns: to hold several bursts of batches, to begin after
what was read while it was stopped, and a look at it once its second epoch has begun.
"""

import math
from dataclasses import dataclass, replace

from autotune.workload.seen import Seen
from autotune.workload.window import Window

TURN_STEPS = 2
# A loader's workers deliver in bursts, a batch from each: a turn holds so many of them, lest one
# turn has a burst more than the next, as far as the longest turn allows.
BURSTS_PER_TURN = 3
LONGEST_TURN_SECONDS = 2.0
# A read that takes a smaller share of a turn, and of the time in which all workers give a batch,
# need not be left out: what of it was for nothing is less than two processes of one program differ
# by, and to leave it out takes as long as all those batches.
SHORT_READ = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long each turn of a contestant is: `seconds` at least, and `steps`.

    With `free_steps`, that many come first, which are not timed, and then exactly `steps`. A sleep
    or a request to a disk or a server goes on while its process is stopped: what each worker was
    reading has come by the next turn, for nothing. The program without workers is stopped between
    two steps, where it reads nothing. So a batch from each worker is left out, and what is timed
    then is from a batch of one worker to another of the same, however far the workers had come.
    """

    seconds: float
    steps: int = TURN_STEPS
    free_steps: int = 0

    @property
    def least_seconds(self) -> float:
        """What a window of it is asked for: none where its steps are counted."""
        return 0.0 if self.free_steps else self.seconds

    def alone(self, times: int) -> "Length":
        """So many times as long, of a process that was not stopped before."""
        return replace(self, seconds=times * self.seconds, steps=TURN_STEPS, free_steps=0)


def length_of_turns(seen: Seen, recent: Window, least_seconds: float) -> Length:
    """How long its turns are, of `least_seconds` or more; `recent` is how it ran last."""
    loader, step_seconds = seen.loader, recent.seconds / max(1, recent.steps)
    if loader is None or not step_seconds:
        return Length(seconds=least_seconds)
    burst_seconds = loader.num_workers * step_seconds
    seconds = max(least_seconds, min(BURSTS_PER_TURN * burst_seconds, LONGEST_TURN_SECONDS))
    size = loader.batch_size
    batches = max(1, round(seen.samples_per_step / size)) if size else 1
    reads = 1 if loader.reads_at_once else size or 1  # into which a batch is divided, if known
    reading = loader.num_workers or int(loader.threaded)
    asleep = 1 - recent.worker_cpu_seconds / recent.seconds / max(1, reading)
    read_seconds = asleep * reading * step_seconds / batches / reads
    if read_seconds <= SHORT_READ * max(seconds, reading * step_seconds / batches):
        return Length(seconds=seconds)
    free_steps = reading // math.gcd(reading, batches)
    wanted = seconds / step_seconds
    # Where epochs are short, each turn has as many of their ends as belong to its steps.
    epoch = round((loader.length or 0) / batches)
    whole = epoch if 0 < epoch <= wanted else free_steps
    steps = max(TURN_STEPS, whole * round(wanted / whole), whole)
    return Length(seconds=seconds, steps=steps, free_steps=free_steps)


def fetched_ahead(seen: Seen) -> int:
    """Batches that the loader's workers hold ready, which a window must not mistake for speed."""
    loader = seen.loader
    return loader.num_workers * (loader.prefetch_factor or 2) if loader else 0


def begun_epochs(seen: Seen) -> int:
    """How many epochs it has begun; 0 where it has no loader."""
    return seen.loader.epochs if seen.loader else 0


def may_begin_its_second_epoch(seen: Seen) -> bool:
    """Whether it is worth asking after a turn what is new: of workers that persist it is to be
    known. Others would read ahead while it answers.
    """
    loader = seen.loader
    return (
        loader is not None
        and loader.epochs <= 1
        and (loader.persistent_workers or not loader.num_workers)
    )
