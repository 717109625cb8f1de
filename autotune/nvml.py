"""The one door to NVML: which GPU this process would use, what it is, and what it says of itself.

Nothing here touches CUDA, so that a process may still be forked afterwards. What a device or its
driver refuses to say is None: "unknown", never 0.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

# The bits of the current clocks' event reasons by which a device is kept below what it could do
# (nvml.h, nvmlClocksEventReasons). Idle, application clocks and sync boost are the user's own.
SLOWED = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What the GPU is: the first that this process may use."""

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the device said at one moment; None where it does not say.

    Attributes:
        seconds: of `time.monotonic()`.
        resident_share: of the driver's last sampling period (1/6 to 1 s), the share in which some
            kernel was resident: what `nvidia-smi` calls utilisation.
        memory_bytes: in use on the device, by whomever.
        power_watts: drawn by the board.
        energy_joules: since the driver was loaded; only differences mean something.
        sm_clock_hertz, memory_clock_hertz: at this moment.
        slowed_by: names of what keeps the clocks down, see `SLOWED`.
        pcie_generation, pcie_width: of the link, at this moment: it goes down when idle.
    """

    seconds: float
    resident_share: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    sm_clock_hertz: float | None = None
    memory_clock_hertz: float | None = None
    slowed_by: tuple[str, ...] | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the device's own counters saw between two moments (GPM, Hopper and later), as shares.

    `sm_share` is how many of the multiprocessors were busy, `occupancy` how many of the warps that
    could have been active were, `tensor_share` the time in which multiprocessors did matrix
    products, `memory_share` the share of the memory's bandwidth.
    """

    sm_share: float | None
    occupancy: float | None
    tensor_share: float | None
    memory_share: float | None


class Device:
    """An open GPU. Ask it within `open_device` only."""

    def __init__(self, nvml: Any, handle: Any, instance: int | None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._instance = instance  # of a GPU that is shared out (MIG)
        self._whole = handle
        if instance is not None:
            self._whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        self._counters: Any = None

    def describe(self) -> Gpu:
        """What the GPU is.

        Raises:
            NVMLError: the driver does not say even that.
        """
        nvml = self._nvml
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(self._whole)
        memory = self._asked("nvmlDeviceGetMemoryInfo")  # refused where it is the machine's
        return Gpu(
            name=str(nvml.nvmlDeviceGetName(self._handle)),
            memory_bytes=int(memory.total if memory else psutil.virtual_memory().total),
            capability=(int(major), int(minor)),
            driver=str(nvml.nvmlSystemGetDriverVersion()),
        )

    def read(self, seconds: float) -> Reading:
        """What the device says now, `seconds` by the reader's clock.

        Of a part of a GPU only the memory is its own; power and clocks are those of the whole.
        """
        memory = self._asked("nvmlDeviceGetMemoryInfo")
        memory_bytes = None if memory is None else int(memory.used)
        if self._instance is not None:
            return Reading(seconds=seconds, memory_bytes=memory_bytes)
        busy = self._asked("nvmlDeviceGetUtilizationRates")
        return Reading(
            seconds=seconds,
            resident_share=None if busy is None else busy.gpu / 100,
            memory_bytes=memory_bytes,
            power_watts=_scaled(self._asked("nvmlDeviceGetPowerUsage"), 1e-3),
            energy_joules=_scaled(self._asked("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
            sm_clock_hertz=_scaled(self._asked("nvmlDeviceGetClockInfo", _SM_CLOCK), 1e6),
            memory_clock_hertz=_scaled(self._asked("nvmlDeviceGetClockInfo", _MEMORY_CLOCK), 1e6),
            slowed_by=self._slowed_by(),
            pcie_generation=self._asked("nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_width=self._asked("nvmlDeviceGetCurrPcieLinkWidth"),
        )

    def uuid(self) -> str | None:
        """What tells the device from all others; a part of a GPU has its own."""
        found: str | None = self._asked("nvmlDeviceGetUUID")
        return found

    def link_limit(self) -> tuple[int, int] | None:
        """Generation and width that the PCIe link could have in this machine."""
        generation = self._asked("nvmlDeviceGetMaxPcieLinkGeneration", whole=True)
        width = self._asked("nvmlDeviceGetMaxPcieLinkWidth", whole=True)
        return None if generation is None or width is None else (generation, width)

    def processes(self, since: float) -> dict[int, bool] | None:
        """The processes that hold the device to compute, by id as its driver counts them (in a
        container they may be others than its own), and whether each did after `since`, of
        `time.time()`; None where the driver does not say, or has not looked since.
        """
        held = self._asked("nvmlDeviceGetComputeRunningProcesses")
        samples = self._asked("nvmlDeviceGetProcessUtilization", int(1e6 * since))
        if held is None or samples is None:
            return None
        at_work = {each.pid for each in samples if each.smUtil}
        return {each.pid: each.pid in at_work for each in held}

    def begin_counting(self) -> None:
        """Take the device's own counters, where it has some, as the start of an `Activity`."""
        self._counters = self._counted()

    def end_counting(self) -> Activity | None:
        """What they saw since `begin_counting`."""
        first, last, self._counters = self._counters, self._counted(), None
        try:
            return None if first is None or last is None else self._activity(first, last)
        finally:
            self._free(first, last)

    def _counted(self) -> Any:
        nvml, sample = self._nvml, None
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(self._whole).isSupportedDevice:
                return None
            sample = nvml.nvmlGpmSampleAlloc()
            if self._instance is None:
                nvml.nvmlGpmSampleGet(self._handle, sample)
            else:
                nvml.nvmlGpmMigSampleGet(self._whole, self._instance, sample)
        except (nvml.NVMLError, AttributeError):  # AttributeError: an older binding
            self._free(sample)
            return None
        return sample

    def _free(self, *samples: Any) -> None:
        for sample in samples:
            if sample is not None:
                with suppress(self._nvml.NVMLError):
                    self._nvml.nvmlGpmSampleFree(sample)

    def _activity(self, first: Any, last: Any) -> Activity | None:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(_COUNTED)
        asked.sample1, asked.sample2 = first, last
        for index, name in enumerate(_COUNTED.values()):
            asked.metrics[index].metricId = getattr(nvml, name)
        try:
            nvml.nvmlGpmMetricsGet(asked)
        except nvml.NVMLError:
            return None
        shares = {
            share: None if metric.nvmlReturn else metric.value / 100
            for share, metric in zip(_COUNTED, asked.metrics, strict=False)
        }
        return Activity(**shares)

    def _slowed_by(self) -> tuple[str, ...] | None:
        bits = self._asked("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:  # the name before driver 535
            bits = self._asked("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if bits is None else tuple(SLOWED[bit] for bit in SLOWED if bits & bit)

    def _asked(self, name: str, *arguments: int, whole: bool = False) -> Any:
        """What the driver answers; None where it refuses, or the binding does not know it."""
        ask: Callable[..., Any] | None = getattr(self._nvml, name, None)
        if ask is None:
            return None
        older_driver = getattr(self._nvml, "NVMLLibraryMismatchError", self._nvml.NVMLError)
        try:
            return ask(self._whole if whole else self._handle, *arguments)
        except (self._nvml.NVMLError, older_driver):
            return None


_SM_CLOCK, _MEMORY_CLOCK = 1, 2  # nvmlClockType_t
_COUNTED = {
    "sm_share": "NVML_GPM_METRIC_SM_UTIL",
    "occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "tensor_share": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "memory_share": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}


@contextmanager
def open_device(uuid: str = "") -> Iterator[Device | None]:
    """The GPU of this id, as CUDA gives it, or the first that CUDA_VISIBLE_DEVICES leaves; None
    without one, or without a driver.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield (_of_id(pynvml, uuid) if uuid else None) or _first_visible(pynvml)
    finally:
        pynvml.nvmlShutdown()


def describe_gpu(uuid: str = "") -> Gpu | None:
    """What the GPU of this id is, or the first one that this process may use; None without one."""
    import pynvml

    with open_device(uuid) as device, suppress(pynvml.NVMLError):
        return device.describe() if device else None
    return None


def _of_id(nvml: Any, uuid: str) -> Device | None:
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        return _first_part(nvml, handle) or Device(nvml, handle, None)
    with suppress(nvml.NVMLError):
        return _part(nvml, nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}"))
    return None


def _first_visible(nvml: Any) -> Device | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    try:
        if visible.startswith("MIG-"):
            return _part(nvml, nvml.nvmlDeviceGetHandleByUUID(visible))
        handle = _by_uuid(nvml, visible) if visible.startswith("GPU-") else None
        if visible.isdigit():
            handle = nvml.nvmlDeviceGetHandleByIndex(int(visible))
        return None if handle is None else _first_part(nvml, handle) or Device(nvml, handle, None)
    except nvml.NVMLError:
        return None


def _by_uuid(nvml: Any, beginning: str) -> Any:
    """The GPU whose id begins so: CUDA takes as much of one as tells it from the others."""
    asked = nvml.nvmlDeviceGetUUID
    handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    return next((each for each in handles if str(asked(each)).startswith(beginning)), None)


def _first_part(nvml: Any, handle: Any) -> Device | None:
    """The first part of a GPU that is shared out (MIG), which is what CUDA then takes."""
    with suppress(nvml.NVMLError, AttributeError):
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            return _part(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0))
    return None


def _part(nvml: Any, handle: Any) -> Device:
    return Device(nvml, handle, int(nvml.nvmlDeviceGetGpuInstanceId(handle)))


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
