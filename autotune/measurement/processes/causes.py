"""What kind of failure an exception is that ended a run, and what it was most likely caused by.

CUDA's errors are told by their text, as the CUDA runtime documents it for `cudaError_t`: torch
raises all of them as one type, `torch.AcceleratorError` (a RuntimeError before torch 2.8).
"""

import os
import re

import torch

# Messages of a process that could get no more memory; torch raises RuntimeError for the CPU
# allocator, and NVIDIA's libraries say it of their own workspace.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "Cannot allocate memory",
    "_ALLOC_FAILED",  # cuBLAS, cuDNN 8, cuSOLVER, cuFFT, cuSPARSE
    "_DEVICE_ALLOCATION_FAILED",  # cuDNN 9
    "_HOST_ALLOCATION_FAILED",
    "was unable to find an engine to execute this computation",  # cuDNN 8 and 9: each lacks room
    "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate",  # it could not get its workspace
    "CUDNN_STATUS_NOT_INITIALIZED",  # nor cuDNN its handle
)
# So does torch up to 2.13 where NVML does not answer: it asks NVML for what to say of the lack, and
# insists on an answer (parts of a GPU in containers, Jetson).
_OUT_OF_MEMORY_WITHOUT_NVML = re.compile(
    r"NVML_SUCCESS ==.* INTERNAL ASSERT FAILED at .*CUDACachingAllocator\.cpp"
)
# Nothing that a program does: another program, the driver, or the hardware.
_DEVICE_LOST = (
    "CUDA-capable device(s) is/are busy or unavailable",
    "CUDA unknown error",
    "uncorrectable ECC error encountered",
    "uncorrectable NVLink error detected",
    "GPU is lost",
    "the launch timed out and was terminated",
)
# So too, unless the user has hidden them all: the program cannot do without, then.
_NO_DEVICE = ("no CUDA-capable device is detected", "No CUDA GPUs are available")
# A kernel went wrong. Most of these leave the process without its device for good, which is why
# every run has a process of its own.
_DEVICE_ERROR = (
    "CUDA error: ",
    "CUDA driver error: ",
    "Triton Error [CUDA]",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_EXECUTION_FAILED",
)
_CAUSES = {
    "device_error": "a kernel of the program or of a setting on trial went wrong, possibly before "
    "the line where it was noticed",
    "device_lost": "most likely the device or its driver is to blame, or another program that "
    "holds the device",
}
# Of an output, and of a gradient.
_OVERWRITTEN = "of CUDAGraphs that has been overwritten"
_OVERWRITING = (
    "the program keeps from an earlier step what a CUDA graph writes in each: "
    "compile=default records none"
)


def kind_of(error: BaseException) -> str:
    """The Failure's kind that `error` is."""
    said = str(error) if isinstance(error, RuntimeError) else ""
    lacks = _has(said, _OUT_OF_MEMORY) or _OUT_OF_MEMORY_WITHOUT_NVML.search(said)
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or lacks:
        return "out_of_memory"
    if _has(said, _NO_DEVICE) and _are_hidden():
        return "crashed"
    if _has(said, (*_DEVICE_LOST, *_NO_DEVICE)):
        return "device_lost"
    return "device_error" if _has(said, _DEVICE_ERROR) else "crashed"


def likely_cause(kind: str, said: str) -> str:
    """What most likely caused a failure of this kind, to be put behind what was said; "" where
    nothing more is known.
    """
    return _OVERWRITING if _OVERWRITTEN in said else _CAUSES.get(kind, "")


def _are_hidden() -> bool:
    """Whether no GPU is shown, as `--device cpu` does it: up to the first that is none."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return shown in {"", "-1"}


def _has(said: str, signs: tuple[str, ...]) -> bool:
    return any(sign in said for sign in signs)
