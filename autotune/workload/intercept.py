"""Running a training program as it stands, watched and set up at torch's seams."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from autotune.workload.conversation import Conversation, Fault, Survey
from autotune.workload.live import Live
from autotune.workload.loading.largest import survey
from autotune.workload.looks.watches import watch_for
from autotune.workload.observe import observe
from autotune.workload.randomness import alike
from autotune.workload.randomness.others import reorder, reseed, restream
from autotune.workload.samples.drawing import deliver
from autotune.workload.seams import (
    anomaly,
    backward,
    copies,
    epochs,
    loader,
    memory_order,
    model,
    optimizer,
    options,
    processes,
)
from autotune.workload.seen import LoaderKey, Seen
from autotune.workload.setup import Setup
from autotune.workload.steps import feeding, leading
from autotune.workload.steps.clock import CudaClock, HostClock, Untimed
from autotune.workload.steps.pace import Pace


@contextmanager
def intercepted(
    setup: Setup,
    conversation: Conversation,
    *,
    training_loader: LoaderKey | None = None,  # that `setup.loader` is for, as it was observed
    passed_loops: int = 0,  # training loops of the program before the one that is meant
    # Windows say what their time was spent on, which itself takes some; the training loader then
    # stays, for its own share to be timed.
    phases: bool = True,
) -> Iterator[Live]:
    """Watch the training that runs inside, set up as `setup` says; every hook is gone afterwards.
    `conversation` is told of windows and asked what comes next, between steps.
    """
    has_gpu = _has_gpu()
    for switch in setup.process:
        switch()
    live = Live(setup=setup, training_loader=training_loader, passed_loops=passed_loops)
    live.fed.keeps = phases
    live.clock = (CudaClock() if has_gpu else HostClock()) if phases else Untimed()
    live.pace = Pace(
        conversation,
        live.clock,
        see=lambda: _seen(live),
        feed=lambda mode: feeding.feed(live, mode),
        drain=lambda seconds: feeding.drain(live, seconds),
        deliver=lambda command: (
            survey(live, command) if isinstance(command, Survey) else deliver(live, command)
        ),
        watch=lambda mode: watch_for(live, mode),
        device=live.device,
        rate=lambda: leading.rate(live),
    )
    seams = (loader, model, backward, optimizer, anomaly, processes, options)
    for seam in (*seams, *([copies] if has_gpu else [])):
        seam.install(live)
    for install in _seams_of(setup):
        install(live)
    try:
        yield live
    finally:
        live.unpatch()


def _seams_of(setup: Setup) -> Iterator[Callable[[Live], None]]:
    """What sets up those that only some runs have."""
    for wanted, install in (
        (setup.stream, restream),
        (setup.reorder, reorder),
        (setup.reseed, reseed),
        (setup.alike, alike.install),
        (setup.epoch_batches, epochs.install),
        (setup.epoch_batches, memory_order.install),
    ):
        if wanted:
            yield install


def _seen(live: Live) -> Seen:
    try:
        return observe(live)
    except Exception as error:
        raise Fault from error


def _has_gpu() -> bool:
    """Whether there may be a GPU, found out without CUDA, which a program may still set up or fork
    before: is_available() would settle which ones are visible, and parts of a GPU are counted by
    CUDA itself.
    """
    parts = os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-")
    return parts or torch.cuda.device_count() > 0
