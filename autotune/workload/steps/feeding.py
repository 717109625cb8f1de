"""How a loop is fed in a mode: one batch again and again, or its loader drained alone."""

import time
from typing import Any

import torch
from torch.utils.data import DataLoader

from autotune.workload import window
from autotune.workload.live import Live
from autotune.workload.loading import batches
from autotune.workload.seams import anomaly
from autotune.workload.seams.loader import draw
from autotune.workload.steps.rehearsal import rehearse
from autotune.workload.steps.replayed import Replayed
from autotune.workload.system.blas import blas_threads, limit_blas_threads
from autotune.workload.system.memory import reset_peak


def feed(live: Live, mode: str) -> str:
    """Get ready to feed the loop as `mode` says; a reason why that is impossible, or ""."""
    _end_drained(live)
    if mode == window.REHEARSE:
        if live.setup.micro_batches == 1:
            return "batches are not divided"
        rehearse(live)
    _compute_with(live, mode)
    anomaly.detect(live, as_own=mode != window.NO_ANOMALY)
    _follow_averages(live, mode)
    live.plain, live.kept_batches = False, {}
    if mode == window.LARGEST:
        return _feed_largest(live)
    if mode not in (window.REPLAY_DEVICE, window.REPLAY_HOST, window.ONE_THREAD):
        return ""
    if live.batch is None or live.fed.loader() is None:
        if mode == window.ONE_THREAD:  # it is timed beside the program as it is
            return ""
        return "no batch of a DataLoader was seen that could be replayed"
    device = None if mode == window.REPLAY_HOST else live.device()
    kept = live.batches.values()
    live.kept_batches = {built: Replayed(batch, device) for built, batch in kept}
    return ""


@torch.no_grad()
def _follow_averages(live: Live, mode: str) -> None:
    """Look at those that are followed while the program goes its own way, or hold some of them."""
    for average in live.averages or ():
        if mode == window.AS_IS and average.places is None:
            average.follow(live.pace.steps)
        average.hold(mode)


def _compute_with(live: Live, mode: str) -> None:
    """One thread of torch's, or of NumPy's linear algebra; or as many as the program has set."""
    for alone, count, compute_with in (
        (window.ONE_THREAD, torch.get_num_threads, torch.set_num_threads),
        (window.ONE_BLAS_THREAD, blas_threads, limit_blas_threads),
    ):
        if mode == alone and alone not in live.fed.own_threads:
            live.fed.own_threads[alone] = count()
            compute_with(1)
        elif mode != alone and alone in live.fed.own_threads:
            compute_with(live.fed.own_threads.pop(alone))


def drain(live: Live, seconds: float) -> tuple[int, int] | str:
    """Draw batches from the training loader for `seconds` with no model, one at least: (batches,
    samples), or why it cannot be.

    An epoch that is begun goes on in the next call: where epochs are short, workers would do
    nothing but start.
    """
    if live.leading_loader is None:
        return "no DataLoader was seen to give the training its batches"
    if live.drawn_in_thread:  # an iterator is for one thread
        return "a thread of the program's own draws its batches"
    loader = live.fed.loader()
    if loader is None:
        return "the program's DataLoader is gone"
    # Asked for their truth, they would say how long they are, which not every one can.
    iterator: Any = live.fed.iterator() if live.drained is None else live.drained
    if iterator is None:  # the program has left its epoch
        iterator = live.drained = DataLoader.__iter__(loader)
    ends = time.perf_counter() + seconds
    drawn = samples = 0
    fresh = False
    while not drawn or time.perf_counter() < ends:
        try:
            batch = draw(iterator)
        except StopIteration:
            if fresh:
                return "the loader gave no batch"
            iterator, fresh = DataLoader.__iter__(loader), True  # the next epoch
            live.drained = iterator
            continue
        fresh = False
        drawn += 1
        samples += batches.count_samples(batch, loader.batch_size)
    return drawn, samples


def _feed_largest(live: Live) -> str:
    """Feed the next of the batches that were found to be large; the peak of memory begins anew."""
    if not live.fed.largest or live.leading_loader is None:
        return "no larger batch was found"
    live.kept_batches = {live.leading_loader: Replayed(live.fed.largest.pop(0))}
    reset_peak(live.device())
    return ""


def _end_drained(live: Live) -> None:
    """End the workers of an epoch that was begun to be drained. Left to the collection of garbage,
    it may take torch five seconds for each of them.
    """
    iterator, live.drained = live.drained, None
    if iterator is not None and iterator._num_workers and not iterator._persistent_workers:
        iterator._shutdown_workers()
