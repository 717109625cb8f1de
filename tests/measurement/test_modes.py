"""What goes by before a mode's windows count, of a run whose workers and whose clock are played."""

import time
from dataclasses import replace
from typing import cast

import pytest

from autotune.measurement.modes import WINDOWS_PER_MODE, take_windows
from autotune.measurement.processes.process import ProcessRun
from autotune.workload.window import DRAIN, REPLAY_DEVICE, Window
from tests import builders

STEP = 0.01


class Filling:
    """Its workers fill their queues for so many seconds, and compute meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._filled_at = seconds
        self.now = 0.0
        self.drawn = 0

    def window(self, seconds: float, *, mode: str, steps: int = 1) -> Window:
        filling = self.now < self._filled_at
        self.now += max(seconds, steps * STEP)
        self.drawn += steps
        used = 0.3 * seconds if filling else 0.0
        return builders.window(steps=steps, seconds=seconds, worker_cpu_seconds=used)


def taken(run: Filling, monkeypatch: pytest.MonkeyPatch, mode: str, workers: int) -> list[Window]:
    """The windows of 6 s."""
    monkeypatch.setattr(time, "monotonic", lambda: run.now)
    seen = builders.seen()
    assert seen.loader is not None
    windows: list[Window] = []
    loader = replace(seen.loader, num_workers=workers)
    take_windows(
        cast("ProcessRun", run), mode, 6.0, seen=builders.seen(loader=loader), into=windows
    )
    return windows


@pytest.mark.parametrize("filling", [0.1, 0.5, 2.5])
def test_a_replay_counts_from_when_workers_have_filled_their_queues(
    filling: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Filling(filling)
    assert not any(w.worker_cpu_seconds for w in taken(run, monkeypatch, REPLAY_DEVICE, 2))
    assert run.now <= filling + 0.5 + 6.0


def test_workers_that_never_rest_are_waited_for_half_as_long_as_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Filling(1e9)
    assert len(taken(run, monkeypatch, REPLAY_DEVICE, 2)) == WINDOWS_PER_MODE
    assert run.now == pytest.approx(9.0, abs=0.3)


def test_nothing_is_waited_for_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Filling(1e9)
    assert taken(run, monkeypatch, REPLAY_DEVICE, 0)
    assert run.now == pytest.approx(6.0 + 2 * STEP)


def test_what_workers_hold_ready_is_drawn_before_a_drain_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Filling(0.0)
    counted = sum(each.steps for each in taken(run, monkeypatch, DRAIN, 2))
    assert run.drawn >= counted + 2 * 2  # workers times prefetch_factor
