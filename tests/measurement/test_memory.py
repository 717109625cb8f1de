"""Peak memory of a run is also its workers'."""

import os
from dataclasses import replace

import psutil
import pytest

from autotune.measurement.readings.memory import CONTEXT_BYTES, beside_bytes, whole_peak
from autotune.workload.seen import Seen
from autotune.workload.window import Allocator, Window
from tests import builders
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN

MIB = 1 << 20
HUNDRED = 100 * MIB
# Of what a worker needs by itself, whatever the program does in it.
LITTLE = 60 * MIB
# Epochs are short: at one moment a worker may just have ended, or begun.
MOMENTS = 6

FILLING = """
kept = []
def fill(worker):
    kept.append(b"x" * (100 << 20))
"""


def peak(start: Start, text: str) -> int:
    run = start(text.replace("range(50)", "range(50000)"))
    try:
        run.await_first_step()
        timed, looks = [], []
        for _ in range(MOMENTS):
            timed.append(run.window(0.05, steps=1))
            looks.append(beside_bytes(run.pid, run.seen()))
        found = whole_peak(run.seen(), timed, looks)
    finally:
        run.kill()
    assert found is not None
    return found


def with_workers(text: str, count: int, more: str = "") -> str:
    return text.replace("batch_size=32", f"batch_size=32, num_workers={count}{more}")


def test_what_workers_have_for_themselves_counts(start: Start) -> None:
    alone = peak(start, PLAIN)
    filled = peak(start, FILLING + with_workers(PLAIN, 2, ", worker_init_fn=fill"))
    assert 2 * HUNDRED < filled - alone < 2 * (HUNDRED + LITTLE)


def test_what_workers_share_with_the_training_counts_once(start: Start) -> None:
    shared = "import torch\nshared = torch.ones(100 << 18)\n"
    alone = peak(start, shared + PLAIN)
    assert peak(start, shared + with_workers(PLAIN, 2)) - alone < 2 * LITTLE < 2 * HUNDRED


def own_process(**changes: object) -> Seen:
    loader = builders.seen().loader
    assert loader is not None
    return builders.seen(loader=replace(loader, **changes))  # type: ignore[arg-type]


def test_of_a_run_on_a_gpu_only_the_memory_of_that_counts() -> None:
    on_a_gpu = replace(own_process(num_workers=4), device="cuda")
    assert beside_bytes(os.getpid(), on_a_gpu) == 0


def test_between_two_epochs_it_is_not_known_what_workers_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [])
    assert beside_bytes(os.getpid(), own_process(num_workers=4)) is None
    assert beside_bytes(os.getpid(), own_process(num_workers=0)) == 0


def test_what_the_system_keeps_to_itself_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: psutil.Process) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "children", lambda self, **_: [self])
    monkeypatch.setattr(psutil.Process, "memory_full_info", refused)
    assert beside_bytes(os.getpid(), own_process(num_workers=1)) is None


def test_a_peak_of_which_a_part_is_unknown_is_unknown() -> None:
    window: Window = builders.window(peak_bytes=5)
    seen = builders.seen()
    assert whole_peak(seen, [window], [None, 3, 2]) == 8
    assert whole_peak(seen, [window], [None]) is None
    assert whole_peak(seen, [replace(window, peak_bytes=None)], [3]) is None


def test_of_a_gpu_a_run_takes_all_that_its_allocator_keeps_and_its_context() -> None:
    """A CUDA graph's pool counts as free once it is recorded, but nobody else can have it."""
    on_a_gpu = builders.seen(device="cuda")
    kept = [
        builders.window(peak_bytes=10, allocator=Allocator(reserved_peak_bytes=each))
        for each in (14, 15)
    ]
    assert whole_peak(on_a_gpu, kept, [0]) == 15 + CONTEXT_BYTES
    unknown = builders.window(peak_bytes=10, allocator=Allocator())
    assert whole_peak(on_a_gpu, [unknown], [0]) is None
    assert whole_peak(on_a_gpu, [replace(unknown, allocator=None)], [0]) is None
