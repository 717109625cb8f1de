"""What an exception that ended a run is taken for, by the messages that torch and CUDA give."""

import pytest
import torch

from autotune.flow.mending import cure
from autotune.knobs import blamed
from autotune.knobs.knob import Config
from autotune.measurement.processes.causes import kind_of, likely_cause
from autotune.measurement.processes.process import RunEnded
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN

ADVICE = "\nCUDA kernel errors might be asynchronously reported at some other API call."
OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.81 GiB "
    "of which 3.12 GiB is free."
)
ASSERTED = 'INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/'
REPORT = '":1165, please report a bug to PyTorch. '


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError(OUT_OF_MEMORY), "out_of_memory"),
        (RuntimeError("CUDA error: out of memory" + ADVICE), "out_of_memory"),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`"),
            "out_of_memory",
        ),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "out_of_memory"),
        (
            RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
            "out_of_memory",
        ),
        (
            RuntimeError(
                "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
            ),
            "out_of_memory",
        ),
        (
            RuntimeError(
                "GET was unable to find an engine to execute this computation after trying 9 plans."
            ),
            "out_of_memory",
        ),
        (
            RuntimeError("FIND was unable to find an engine to execute this computation"),
            "out_of_memory",
        ),
        (
            RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `create`"),
            "out_of_memory",
        ),
        (RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"), "out_of_memory"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), "out_of_memory"),
        (
            RuntimeError(f"NVML_SUCCESS == r {ASSERTED}CUDACachingAllocator.cpp{REPORT}"),
            "out_of_memory",
        ),
        (
            RuntimeError(
                "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() "
                f"{ASSERTED}CUDACachingAllocator.cpp{REPORT}"
            ),
            "out_of_memory",
        ),
        # Under expandable segments NVML is asked where nothing is lacking.
        (RuntimeError(f"NVML_SUCCESS == r {ASSERTED}PeerToPeerAccess.cpp{REPORT}"), "crashed"),
        (RuntimeError(f"block->ptr {ASSERTED}CUDACachingAllocator.cpp{REPORT}"), "crashed"),
        (MemoryError(), "out_of_memory"),
        (
            RuntimeError("CUDA error: an illegal memory access was encountered" + ADVICE),
            "device_error",
        ),
        (RuntimeError("CUDA error: device-side assert triggered" + ADVICE), "device_error"),
        (RuntimeError("CUDA error: unspecified launch failure" + ADVICE), "device_error"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "device_error"),
        (
            RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable" + ADVICE),
            "device_lost",
        ),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered" + ADVICE), "device_lost"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "crashed"),
        (ValueError("CUDA error: "), "crashed"),
    ],
)
def test_each_error_has_its_kind(error: BaseException, kind: str) -> None:
    assert kind_of(error) == kind


@pytest.mark.parametrize(
    "said",
    ["No CUDA GPUs are available", "CUDA error: no CUDA-capable device is detected" + ADVICE],
)
@pytest.mark.parametrize(
    ("shown", "kind"),
    [("", "crashed"), ("-1", "crashed"), ("0", "device_lost"), (None, "device_lost")],
)
def test_a_device_that_is_hidden_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, said: str, shown: str | None, kind: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert kind_of(RuntimeError(said)) == kind
    assert likely_cause("crashed", said) == ""
    assert "GPU and finds none here" in cure(f"RuntimeError: {said}", "")


@pytest.mark.skipif(not hasattr(torch, "AcceleratorError"), reason="torch 2.8 brought it")
def test_torch_has_a_type_of_its_own_for_errors_of_the_device() -> None:
    error = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    assert kind_of(error) == "device_error"


def test_what_is_the_devices_has_a_likely_cause() -> None:
    assert "kernel" in likely_cause("device_error", "")
    assert "driver" in likely_cause("device_lost", "")
    assert likely_cause("crashed", "") == ""


@pytest.mark.parametrize("what", ["tensor output", "gradient tensor output"])
def test_what_a_cuda_graph_has_overwritten_is_said_in_words(what: str) -> None:
    said = (
        f"Error: accessing {what} of CUDAGraphs that has been overwritten by a subsequent run. "
        'Stack trace: File "train.py", line 12, in forward'
    )
    kind = kind_of(RuntimeError(said))
    assert kind == "crashed"
    assert "the program keeps" in likely_cause(kind, said)
    config: Config = {"compile": "reduce-overhead", "num_workers": 2}
    assert blamed(config, f"RuntimeError: {said}") == {"compile": "reduce-overhead"}


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.",
            "precision",
        ),
        ("Attempting to unscale FP16 gradients.", "precision"),
        ("`fused` does not support sparse grad or complex param", "optimizer"),
        ("`_fused_sgd` does not support sparse gradients", "optimizer"),
        (
            "`fused=True` requires all the params to be floating point Tensors of",
            "optimizer",
        ),
        ("lr as a Tensor is not supported for capturable=False and foreach=True", "optimizer"),
    ],
)
def test_what_torch_refuses_to_a_setting_is_blamed_on_it(said: str, name: str) -> None:
    config: Config = {"precision": "fp16", "optimizer": "fused", "num_workers": 2}
    assert blamed(config, f"RuntimeError: {said}") == {name: config[name]}


def ended_by(start: Start, message: str) -> RunEnded:
    text = PLAIN.replace("optimizer.step()", f"raise RuntimeError({message!r})", 1)
    assert text != PLAIN
    with pytest.raises(RunEnded) as ended:
        start(text).await_first_step()
    return ended.value


def test_a_run_whose_device_fails_is_a_failure_and_the_next_one_is_clean(start: Start) -> None:
    failure = ended_by(start, "CUDA error: an illegal memory access was encountered").failure
    assert failure.kind == "device_error"
    assert failure.reason.startswith(
        "RuntimeError: CUDA error: an illegal memory access was encountered; a kernel of "
    )
    assert start(PLAIN).window(0.0, steps=3).steps >= 3


def test_a_run_without_memory_is_a_failure_and_the_next_one_is_clean(start: Start) -> None:
    assert ended_by(start, OUT_OF_MEMORY).failure.kind == "out_of_memory"
    assert start(PLAIN).window(0.0, steps=3).steps >= 3


def test_a_compiler_that_does_not_come_back_is_named(start: Start) -> None:
    text = PLAIN.replace("loss.backward()", "import time; time.sleep(60)", 1)
    run = start(text)
    run.slow_because = "torch.compile was most likely still at work"
    run.limit(0.2)
    with pytest.raises(RunEnded) as ended:
        run.await_first_step()
    assert ended.value.failure.kind == "hung"
    assert ended.value.failure.reason.endswith("; torch.compile was most likely still at work")
