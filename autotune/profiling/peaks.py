"""What devices can do at most, by their makers' data sheets: dense, without sparsity."""

import re
from dataclasses import dataclass

from autotune.machine import Machine
from autotune.workload.seen import Seen

_TERA, _GIGA = 1e12, 1e9
# Devices from this capability on compute float32 products by TF32 where they are allowed to (CUDA
# C++ Programming Guide, tensor cores).
_TF32_CAPABILITY = (8, 0)
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A device's peaks: floating point operations a second by precision ("fp32", "tf32", "bf16",
    "fp16"; those that accumulate in float32, as torch does), and its memory's bandwidth.
    """

    flops_per_second: dict[str, float]
    bytes_per_second: float


def _peak(
    fp32: float, tf32: float | None, half: float, gigabytes: float, *, bf16: bool = True
) -> Peak:
    """A row in the data sheets' units: Tflop/s and GB/s; `half` is both half precisions'."""
    by_precision = {"fp32": fp32, "tf32": tf32, "bf16": half if bf16 else None, "fp16": half}
    return Peak(
        flops_per_second={
            name: value * _TERA for name, value in by_precision.items() if value is not None
        },
        bytes_per_second=gigabytes * _GIGA,
    )


# By the whole of the name that the driver gives. Where a sheet gives figures with sparsity, these
# are half of them.
_PEAKS: tuple[tuple[str, Peak], ...] = (
    # NVIDIA H200 Tensor Core GPU datasheet (SXM; NVL).
    (r"NVIDIA H200", _peak(67, 494.5, 989.5, 4800)),
    (r"NVIDIA H200 NVL", _peak(60, 417.5, 835.5, 4800)),
    # NVIDIA H100 Tensor Core GPU datasheet (SXM; PCIe, edition of 2022; NVL).
    (r"NVIDIA H100 80GB HBM3", _peak(67, 494.5, 989.5, 3350)),
    (r"NVIDIA H100 PCIe", _peak(51, 378, 756.5, 2000)),
    (r"NVIDIA H100 NVL", _peak(60, 417.5, 835.5, 3900)),
    # NVIDIA A100 Tensor Core GPU datasheet (40 GB; 80 GB PCIe; 80 GB SXM).
    (r"(NVIDIA )?A100-(SXM4|PCIE)-40GB", _peak(19.5, 156, 312, 1555)),
    (r"NVIDIA A100 80GB PCIe", _peak(19.5, 156, 312, 1935)),
    (r"(NVIDIA )?A100-SXM4-80GB", _peak(19.5, 156, 312, 2039)),
    # NVIDIA L4, L40S and A10 Tensor Core GPU datasheets.
    (r"NVIDIA L4", _peak(30.3, 60, 121, 300)),
    (r"NVIDIA L40S", _peak(91.6, 183, 362, 864)),
    (r"NVIDIA A10", _peak(31.2, 62.5, 125, 600)),
    # NVIDIA T4 and V100 Tensor Core GPU datasheets.
    (r"(NVIDIA |Tesla )?T4", _peak(8.1, None, 65, 320, bf16=False)),
    (r"(NVIDIA |Tesla )?V100-SXM2-\d+GB", _peak(15.7, None, 125, 900, bf16=False)),
    (r"(NVIDIA |Tesla )?V100-PCIE-\d+GB", _peak(14, None, 112, 900, bf16=False)),
    # NVIDIA Ampere GA102 GPU Architecture whitepaper, NVIDIA Ada GPU Architecture whitepaper; half
    # precision with accumulation in float32.
    (r"NVIDIA GeForce RTX 3090", _peak(35.6, 35.6, 71, 936)),
    (r"NVIDIA GeForce RTX 4090", _peak(82.6, 82.6, 165.2, 1008)),
)


def peak_of(device_name: str) -> Peak | None:
    """The peaks of the device of this name; None where it is not in the table, as any part of a GPU
    that is shared out.
    """
    return next((peak for name, peak in _PEAKS if re.fullmatch(name, device_name)), None)


def precision_of(seen: Seen, machine: Machine, convolution_share: float | None = None) -> str:
    """The fastest precision that the program lets its matrix products and convolutions use; where
    it is known what convolutions do of the operations, those of the two that do most of them.
    """
    names = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float64": "fp64"}
    largest = max(seen.models, key=lambda model: model.parameters, default=None)
    given = names.get(seen.autocast) or names.get(largest.dtype if largest else "")
    if given:
        return given
    products, convolutions = seen.matmul_precision != "highest", seen.cudnn_tf32
    if convolution_share is None:
        convolves = any(model.convolves for model in seen.models)
        allowed = products or (convolves and convolutions)
    else:
        allowed = convolutions if convolution_share > _MOSTLY else products
    offered = machine.capability is not None and machine.capability >= _TF32_CAPABILITY
    return "tf32" if allowed and offered else "fp32"
