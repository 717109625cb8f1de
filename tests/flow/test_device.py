"""The device that trains, where it is another than the one that was found; the GPUs are made up."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autotune import machine
from autotune.errors import MeasurementError
from autotune.flow import Options, device
from autotune.flow.device import that_trains
from autotune.knobs.evidence import on_cuda
from autotune.machine import Machine
from autotune.nvml import Gpu
from autotune.workload import observe
from tests import builders

TOLD = Gpu(name="Orin", memory_bytes=8 << 30, capability=(8, 7), driver="")
ON_GPU = builders.seen(device="cuda", device_uuid="9e0a", gpu=TOLD)


def trained_on(
    monkeypatch: pytest.MonkeyPatch,
    *,
    seen: Any = ON_GPU,
    by_nvml: Gpu | None = None,
    found: Machine | None = None,
    **options: Any,
) -> Machine:
    for module in (device, machine):
        monkeypatch.setattr(module, "describe_gpu", lambda _="": by_nvml)
    monkeypatch.setattr(machine, "_torch_cuda_version", lambda: "12.6")
    context: Any = SimpleNamespace(machine=found or builders.machine(), options=Options(**options))
    return that_trains(context, seen)


def test_a_gpu_that_nvml_does_not_show_is_had_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    had = trained_on(monkeypatch)
    assert (had.device, had.device_name, had.device_memory_bytes) == ("cuda", "Orin", 8 << 30)
    assert (had.capability, had.versions["cuda"], "driver" in had.versions) == (
        (8, 7),
        "12.6",
        False,
    )
    assert on_cuda(builders.profile(machine=had))


@pytest.mark.parametrize(("asked", "by_nvml"), [("cpu", None), (None, TOLD)])
def test_a_program_that_takes_a_gpu_which_was_hidden_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, by_nvml: Gpu | None
) -> None:
    with pytest.raises(MeasurementError, match="sets CUDA_VISIBLE_DEVICES itself") as refused:
        trained_on(monkeypatch, by_nvml=by_nvml, device=asked)
    assert "without --device cpu" in refused.value.advice


def test_a_program_beside_a_gpu_has_the_machine_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = builders.machine(device="cuda", device_name="GPU 0", capability=(9, 0))
    had = trained_on(monkeypatch, seen=builders.seen(), found=beside)
    assert (had.device, had.capability) == ("cpu", None)


def test_what_cuda_says_of_the_gpu_that_trains_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(name="Orin", total_memory=8 << 30, major=8, minor=7, uuid="9e0a")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: told)
    assert observe._gpu(torch.device("cuda", 0)) == {"device_uuid": "9e0a", "gpu": TOLD}
    assert observe._gpu(torch.device("cpu")) == {}
