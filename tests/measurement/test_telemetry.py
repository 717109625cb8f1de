"""A device is read while a run is timed, from outside the run."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from autotune.measurement.doubts import doubts_of_device
from autotune.measurement.readings import telemetry
from autotune.measurement.readings.telemetry import count_others, reports_energy, sampled
from autotune.nvml import Activity, Reading
from autotune.profiling.telemetry import LEAST_COUNTED_SECONDS, Telemetry
from tests import builders

RUN = 4711
ACTIVITY = Activity(sm_share=0.5, occupancy=0.3, tensor_share=None, memory_share=0.1)


class Device:
    """A GPU that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, seconds: float) -> Reading:
        self.reads += 1
        return Reading(seconds=seconds, energy_joules=100.0 * self.reads)

    def begin_counting(self) -> None: ...

    def end_counting(self) -> Activity:
        return ACTIVITY

    def link_limit(self) -> tuple[int, int]:
        return (5, 16)

    def processes(self, since: float) -> dict[int, bool]:
        assert 0 <= time.time() - since < 60
        return {RUN: True, os.getpid(): True, 98: False, 99: True}


@contextmanager
def opened(device: Any) -> Iterator[Any]:
    yield device


def on_gpu() -> Any:
    return replace(builders.seen(), device="cuda")


def test_a_run_on_a_gpu_is_read_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setattr(telemetry, "open_device", lambda uuid: opened(device))
    with sampled(on_gpu(), RUN) as found:
        time.sleep(1.5 * LEAST_COUNTED_SECONDS)
    known = found.telemetry
    assert known is not None
    assert known.readings == device.reads >= 2
    assert known.energy_joules == 100.0 * (device.reads - 1)
    assert known.activity == ACTIVITY
    assert known.pcie_limit == (5, 16)
    assert known.other_processes == 1


def test_a_run_on_a_cpu_opens_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "open_device", lambda _: pytest.fail("a device was opened"))
    with sampled(builders.seen(), RUN) as found:
        pass
    assert found.telemetry is None


def test_a_driver_that_is_not_there_is_no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "open_device", lambda uuid: opened(None))
    with sampled(on_gpu(), RUN) as found:
        pass
    assert found.telemetry is None


def test_energy_is_reported_by_a_gpu_that_trains_and_says_what_it_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = SimpleNamespace(read=lambda seconds: Reading(seconds=seconds, memory_bytes=1))
    for device, reports in ((Device(), True), (silent, False), (None, False)):
        monkeypatch.setattr(telemetry, "open_device", lambda uuid, device=device: opened(device))
        assert reports_energy(on_gpu()) == reports
        assert not reports_energy(builders.seen())


def test_the_server_through_which_a_device_is_shared_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = {RUN: True, 1: True, 2**22: True}
    monkeypatch.setattr(
        psutil.Process, "name", lambda each: "nvidia-cuda-mps-server" if each.pid == 1 else "python"
    )
    assert count_others(others, RUN) == 1
    assert count_others({RUN: True, 1: True}, RUN) == 0


def test_processes_are_unknown_where_the_run_itself_is_not_listed() -> None:
    assert count_others({1: True, 2: True}, RUN) is None
    assert count_others(None, RUN) is None
    assert count_others({RUN: True, os.getpid(): True}, RUN) == 0


def test_a_process_that_holds_the_device_and_does_nothing_is_no_other() -> None:
    assert count_others({RUN: True, 98: False}, RUN) == 0
    assert count_others({RUN: False, 98: True}, RUN) == 1


def doubts(**known: Any) -> list[str]:
    return [each.name for each in doubts_of_device(Telemetry(seconds=1.0, readings=10, **known))]


def test_a_device_that_is_shared_or_slowed_makes_a_run_doubtful() -> None:
    assert doubts(other_processes=2) == ["device shared"]
    assert doubts(slowed={"heat (hardware)": 0.1}) == ["device slowed"]
    assert doubts(slowed={"power brake": 0.5}, other_processes=1) == [
        "device shared",
        "device slowed",
    ]


def test_what_is_healthy_or_unknown_is_no_doubt() -> None:
    assert doubts_of_device(None) == ()
    assert doubts() == []
    assert doubts(other_processes=0, slowed={"power cap": 1.0, "heat (software)": 0.05}) == []
