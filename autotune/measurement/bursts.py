"""What a contestant's loader asks of its turns: to hold several bursts of batches, and a look at it
once its second epoch has begun.
"""

from autotune.workload.seen import Seen
from autotune.workload.window import Window

# A loader's workers deliver in bursts, a batch from each: a turn holds so many of them, lest one
# turn has a burst more than the next, as far as the longest turn allows.
BURSTS_PER_TURN = 3
LONGEST_TURN_SECONDS = 2.0


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


def bursts_seconds(seen: Seen, recent: Window) -> float:
    """How long a turn must be to hold a few bursts of the loader's workers."""
    workers = seen.loader.num_workers if seen.loader else 0
    seconds = BURSTS_PER_TURN * workers * recent.seconds / max(1, recent.steps)
    return min(seconds, LONGEST_TURN_SECONDS)
