"""How many loaded batches may wait in memory: in shared memory, where workers put them, and in main
memory.
"""

from autotune.profiling.profile import Profile
from autotune.workload.seen import Seen

# What torch's DataLoader prefetches for each worker unless it is told otherwise.
TORCH_PREFETCH = 2
# Waiting batches may fill this share of the memory that is free: the rest is the program's, and
# other programs'.
_FILLED = 0.5
_UNBOUNDED = 1_000_000
TOO_MUCH = "more than half of the shared memory that is free, or of main memory"


def most_queued_batches(profile: Profile) -> int:
    """The most loaded batches that fit well into the machine's memory while they wait."""
    if profile.seen.batch_bytes <= 0:
        return _UNBOUNDED
    machine = profile.machine
    free = min(machine.shared_memory_bytes, machine.memory_bytes)
    return int(free * _FILLED // profile.seen.batch_bytes)


def queued_by_a_worker(seen: Seen) -> int:
    """Batches that each worker of the program's loader prefetches, or would if it had workers."""
    own = seen.loader.prefetch_factor if seen.loader else None
    return own or TORCH_PREFETCH
