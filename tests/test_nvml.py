"""What NVML says of a device, and what becomes of what it refuses to say."""

# ruff: noqa: N802 - a driver is asked by its own names

import os
import sys
import types
from typing import Any

import psutil
import pytest

from autotune import nvml
from autotune.nvml import open_device

PARENT, PART = "parent", "part"


class Refuses(Exception):
    pass


class Driver(types.ModuleType):
    """A driver with one GPU, that answers what it is given and refuses the rest."""

    NVMLError = Refuses
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL = 2
    NVML_GPM_METRIC_SM_OCCUPANCY = 3
    NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5
    NVML_GPM_METRIC_DRAM_BW_UTIL = 10

    def __init__(self, *, shared_out: bool = False, **answers: Any) -> None:
        super().__init__("pynvml")
        self.answers = answers
        self.shared_out = shared_out
        self.samples = 0
        self.asked: list[tuple[str, Any]] = []

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return PARENT

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in ("MIG-5c1b", "GPU-9e0a"):
            raise Refuses(uuid)
        return PART if uuid.startswith("MIG") else "second"

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        return [int(self.shared_out), 0]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        return PART

    def nvmlDeviceGetGpuInstanceId(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        return PARENT

    def nvmlGpmQueryDeviceSupport(self, handle: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(isSupportedDevice="activity" in self.answers)

    def nvmlGpmSampleAlloc(self) -> object:
        self.samples += 1
        return object()

    def nvmlGpmSampleFree(self, sample: object) -> None:
        self.samples -= 1

    def nvmlGpmSampleGet(self, handle: str, sample: object) -> None:
        self.asked.append(("whole", handle))

    def nvmlGpmMigSampleGet(self, handle: str, instance: int, sample: object) -> None:
        self.asked.append(("part", (handle, instance)))

    def c_nvmlGpmMetricsGet_t(self) -> types.SimpleNamespace:
        metrics = [types.SimpleNamespace(nvmlReturn=0, value=0.0) for _ in range(9)]
        return types.SimpleNamespace(metrics=metrics)

    def nvmlGpmMetricsGet(self, asked: Any) -> None:
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = self.answers["activity"].get(metric.metricId, 0.0)
            metric.nvmlReturn = int(metric.metricId not in self.answers["activity"])

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[Any]:
        samples = self.answers.get("nvmlDeviceGetProcessUtilization", ())
        taken = [each for each in samples if each.timeStamp > since]
        if not taken:
            raise Refuses("not found")
        return taken

    def __getattr__(self, name: str) -> Any:
        def ask(handle: str, *arguments: int) -> Any:
            self.asked.append((name, handle))
            if name not in self.answers:
                raise Refuses(name)
            answer = self.answers[name]
            return answer[arguments[0]] if arguments else answer

        if name.startswith("nvmlDevice"):
            return ask
        raise AttributeError(name)


HOPPER: dict[str, Any] = {
    "nvmlDeviceGetUtilizationRates": types.SimpleNamespace(gpu=97, memory=40),
    "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=80 << 30, used=10 << 30),
    "nvmlDeviceGetPowerUsage": 412_000,
    "nvmlDeviceGetTotalEnergyConsumption": 5_000_000,
    "nvmlDeviceGetClockInfo": {1: 1980, 2: 3201},
    "nvmlDeviceGetCurrentClocksEventReasons": 0x04 | 0x40 | 0x01,
    "nvmlDeviceGetCurrPcieLinkGeneration": 4,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetComputeRunningProcesses": [types.SimpleNamespace(pid=11)],
    "nvmlDeviceGetProcessUtilization": [
        types.SimpleNamespace(pid=11, timeStamp=8_000_000, smUtil=90)
    ],
}


@pytest.fixture(autouse=True)
def _every_device_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def installed(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Driver:
    driver = Driver(**answers)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return driver


def test_a_reading_is_in_plain_units(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, **HOPPER)
    with open_device() as device:
        assert device is not None
        found = device.read(3.0)
        assert device.link_limit() == (5, 16)
        assert device.processes(7.0) == {11: True}
    assert found == nvml.Reading(
        seconds=3.0,
        resident_share=0.97,
        memory_bytes=10 << 30,
        power_watts=412.0,
        energy_joules=5000.0,
        sm_clock_hertz=1.98e9,
        memory_clock_hertz=3.201e9,
        slowed_by=("power cap", "heat (hardware)"),
        pcie_generation=4,
        pcie_width=16,
    )


@pytest.mark.parametrize("refused", sorted(HOPPER))
def test_what_a_device_refuses_is_unknown_and_the_rest_is_said(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    installed(monkeypatch, **{name: HOPPER[name] for name in HOPPER if name != refused})
    with open_device() as device:
        assert device is not None
        figures = [*map(device.read(0.0).__getattribute__, nvml.Reading.__slots__)]
        asked = [*figures, device.link_limit(), device.processes(0.0)]
    assert 1 <= asked.count(None) <= 2
    assert 0 not in asked[1:]


def test_an_older_driver_says_by_the_older_name_what_slows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, nvmlDeviceGetCurrentClocksThrottleReasons=0x80)
    with open_device() as device:
        assert device is not None
        assert device.read(0.0).slowed_by == ("power brake",)


@pytest.mark.parametrize("visible", [None, "MIG-5c1b"])
def test_a_part_of_a_gpu_has_only_its_memory_for_itself(
    monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    if visible:
        monkeypatch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", visible)
    driver = installed(monkeypatch, shared_out=True, activity={2: 50.0}, **HOPPER)
    with open_device() as device:
        assert device is not None
        assert device.read(1.0) == nvml.Reading(seconds=1.0, memory_bytes=10 << 30)
        device.begin_counting()
        found = device.end_counting()
    assert found is not None and found.sm_share == 0.5
    assert ("part", (PARENT, 7)) in driver.asked


def test_the_device_s_own_counters_are_read_where_it_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = installed(monkeypatch, activity={2: 81.0, 3: 40.0, 10: 12.0})
    with open_device() as device:
        assert device is not None
        device.begin_counting()
        found = device.end_counting()
    assert found == nvml.Activity(
        sm_share=0.81, occupancy=0.4, tensor_share=None, memory_share=0.12
    )
    assert driver.samples == 0  # all were given back


def test_a_device_without_such_counters_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = installed(monkeypatch)
    with open_device() as device:
        assert device is not None
        device.begin_counting()
        assert device.end_counting() is None
    assert driver.samples == 0


def test_the_device_that_cuda_names_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = installed(monkeypatch, **HOPPER)
    for uuid, handle in (("9e0a", "second"), ("5c1b", PART), ("gone", PARENT), ("", PARENT)):
        driver.asked.clear()
        with open_device(uuid) as device:
            assert device is not None
            device.processes(0.0)
        assert driver.asked == [("nvmlDeviceGetComputeRunningProcesses", handle)]


def test_a_gpu_without_memory_of_its_own_has_the_machine_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {
        "nvmlDeviceGetCudaComputeCapability": (12, 1),
        "nvmlDeviceGetName": "NVIDIA GB10",
        "nvmlSystemGetDriverVersion": "580",
    }
    driver = installed(monkeypatch, **known)
    driver.nvmlSystemGetDriverVersion = lambda: "580"  # type: ignore[attr-defined]
    found = nvml.describe_gpu()
    assert found is not None and found.name == "NVIDIA GB10"
    assert found.memory_bytes == psutil.virtual_memory().total


def test_a_question_that_is_too_new_for_the_driver_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class TooNew(Exception):
        pass

    def ask(handle: str) -> None:
        raise TooNew

    driver = installed(monkeypatch)
    driver.NVMLLibraryMismatchError = TooNew  # type: ignore[attr-defined]
    driver.nvmlDeviceGetComputeRunningProcesses = ask  # type: ignore[attr-defined]
    with open_device() as device:
        assert device is not None and device.processes(0.0) is None


def test_a_process_that_only_holds_the_device_is_told_from_one_that_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sample(pid: int, seconds: float, share: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(pid=pid, timeStamp=int(1e6 * seconds), smUtil=share)

    holds = [types.SimpleNamespace(pid=pid) for pid in (11, 12, 13, 14)]
    samples = [
        sample(11, 8.0, 90),
        sample(12, 6.0, 80),  # before
        sample(13, 8.0, 0),  # only copies
        sample(15, 8.0, 5),  # draws a desktop
    ]
    installed(
        monkeypatch,
        nvmlDeviceGetComputeRunningProcesses=holds,
        nvmlDeviceGetProcessUtilization=samples,
    )
    with open_device() as device:
        assert device is not None
        assert device.processes(7.0) == {11: True, 12: False, 13: False, 14: False}
        assert device.processes(9.0) is None  # nothing was looked at since
