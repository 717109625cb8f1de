"""Reading the device while a run is timed: from the controller, so as not to disturb the run."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from autotune.nvml import Activity, Device, Reading, open_device
from autotune.profiling.telemetry import Telemetry, sum_up
from autotune.workload.seen import Seen

# NVML's own sampling period is 1/6 to 1 s: reading more often says nothing new.
READINGS_PER_SECOND = 10.0


class Sampler:
    """Reads a device in a thread of its own until it is stopped; without one, does nothing."""

    def __init__(self, device: Device | None, run_pid: int) -> None:
        self._device = device
        self._run_pid = run_pid
        self._readings: list[Reading] = []
        self._activity: Activity | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="telemetry", daemon=True)
        self._others: int | None = None
        self._since = 0.0

    def start(self) -> None:
        """Begin to read."""
        if self._device is not None:
            self._since = time.time()
            self._device.begin_counting()
            self._thread.start()

    def stop(self) -> None:
        """Read once more, and no further."""
        if self._device is not None:
            self._stop.set()
            self._thread.join()
            self._readings.append(self._device.read(time.monotonic()))
            self._activity = self._device.end_counting()
            self._others = count_others(self._device.processes(self._since), self._run_pid)

    def telemetry(self) -> Telemetry | None:
        """What was read, once stopped; None without a device."""
        if self._device is None or not self._readings:
            return None
        return sum_up(
            self._readings,
            pcie_limit=self._device.link_limit(),
            other_processes=self._others,
            activity=self._activity,
        )

    def _read(self) -> None:
        assert self._device is not None
        while True:
            self._readings.append(self._device.read(time.monotonic()))
            if self._stop.wait(1 / READINGS_PER_SECOND):
                return


class Sampled:
    """Where what was read lies, once the block is left."""

    telemetry: Telemetry | None = None


@contextmanager
def sampled(seen: Seen, run_pid: int) -> Iterator[Sampled]:
    """Read the device for as long as the block runs, where the run `run_pid` trains on a GPU."""
    found = Sampled()
    if not trains_on_gpu(seen):
        yield found
        return
    with open_device(seen.device_uuid) as device:
        sampler = Sampler(device, run_pid)
        sampler.start()
        try:
            yield found
        finally:
            sampler.stop()
            found.telemetry = sampler.telemetry()


def trains_on_gpu(seen: Seen) -> bool:
    """Whether what trains has its parameters on a GPU."""
    return seen.device == "cuda"


def reports_energy(seen: Seen) -> bool:
    """Whether what trains has its parameters on a GPU that says what it draws."""
    if not trains_on_gpu(seen):
        return False
    with open_device(seen.device_uuid) as device:
        said = device.read(time.monotonic()) if device else Reading(seconds=0.0)
        return said.energy_joules is not None or said.power_watts is not None


def count_others(processes: Mapping[int, bool] | None, run_pid: int) -> int | None:
    """How many of `processes` computed, and are neither the run's nor this process's, nor were
    started by it.

    One that did nothing meanwhile is none: a notebook holds its device for as long as it is open.
    """
    if processes is None or run_pid not in processes:
        return None
    own = {os.getpid(), *(each.pid for each in psutil.Process().children(recursive=True))}
    at_work = {pid for pid, computed in processes.items() if computed}
    return sum(not _shares_out(pid) for pid in at_work - own - {run_pid})


def _shares_out(pid: int) -> bool:
    """Whether it is NVIDIA's server through which processes share a device (MPS)."""
    try:
        return str(psutil.Process(pid).name()).startswith("nvidia-cuda-mps")
    except psutil.Error:
        return False
