"""Reading the device while a run is timed: from the controller, so as not to disturb the run."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from autotune.nvml import Reading, open_device
from autotune.profiling.telemetry import Telemetry, sum_up
from autotune.workload.seen import Seen

# NVML's own sampling period is 1/6 to 1 s: reading more often says nothing new.
READINGS_PER_SECOND = 10.0


class Sampled:
    """Where what was read lies, once the block is left."""

    telemetry: Telemetry | None = None


@contextmanager
def sampled(seen: Seen, run_pid: int) -> Iterator[Sampled]:
    """Read the device in a thread of its own for as long as the block runs, where the run `run_pid`
    trains on a GPU.
    """
    found = Sampled()
    if not trains_on_gpu(seen):
        yield found
        return
    with open_device(seen.device_uuid) as device:
        if device is None:
            yield found
            return
        readings, over = list[Reading](), threading.Event()

        def read() -> None:
            while True:
                readings.append(device.read(time.monotonic()))
                if over.wait(1 / READINGS_PER_SECOND):
                    return

        since, thread = time.time(), threading.Thread(target=read, name="telemetry", daemon=True)
        device.begin_counting()
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()
            readings.append(device.read(time.monotonic()))
            activity = device.end_counting()
            found.telemetry = sum_up(
                readings,
                other_processes=count_others(device.processes(since), run_pid),
                pcie_limit=device.link_limit(),
                activity=activity,
            )


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
