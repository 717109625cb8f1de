"""What a dataset holds that processes cannot share, and what becomes of that in workers."""

from collections.abc import Sequence

from autotune.workload.samples.delivery import (
    CONNECTION,
    INITIAL_SEED,
    NUM_THREADS,
    PIPES,
    THREADS,
    Delivery,
    Holding,
    say,
)

_TORN = (
    "batches may be torn: the same memory is filled anew for each (give out a copy of it), and a "
    "worker may fill it while the batch before is on its way, or trained on"
)


def not_for_workers(own: Delivery, again: Delivery) -> str:
    """Why what the loader gave without workers, as the program has it, is not for workers to make,
    though they seem to make the same. Where it gives the same `again`, its samples are no stream of
    random numbers that each worker may have begin elsewhere.
    """
    # As many as there was time for, each time.
    alike = all(one == other for one, other in zip(own.batches, again.batches, strict=False))
    if INITIAL_SEED in own.asked and alike:
        return (
            f"samples may be others: making them asks for `torch.{INITIAL_SEED}()` "
            f"({own.asked[INITIAL_SEED]}), the same number in all of a run without workers, and "
            "another in each worker and epoch"
        )
    if NUM_THREADS in own.asked:
        return (
            f"samples may be others: making them asks for `torch.{NUM_THREADS}()` "
            f"({own.asked[NUM_THREADS]}), which is 1 in each worker"
        )
    return _TORN if own.overwritten else ""


def unshareable(given: Delivery, workers: int) -> str:
    """Why processes would get in each other's way, even where they did not yet."""
    connections = [each for each in given.holdings if each.kind in (CONNECTION, PIPES)]
    if workers and connections:
        return f"processes would share {say(connections)}: each is to open its own"
    threads = [each for each in given.holdings if each.kind == THREADS]
    if workers and threads:
        return (
            f"{say(threads)} would stay behind in the program's own process, and what a worker "
            "gives them to do may never be done: each is to start its own"
        )
    if given.moved:
        return (
            f"processes share one open file (`{given.moved[0]}`), and each moves where the others "
            "read on: each is to open its own"
        )
    return ""


def likely(holdings: Sequence[Holding], workers: int, reason: str) -> str:
    """The likely cause of a failure: what the dataset holds that processes cannot share."""
    others = [each for each in holdings if f"`{each.path}`" not in reason]
    return f" (the dataset holds {say(others)})" if workers and others else ""
