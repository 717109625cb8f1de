"""What a run has of memory: on its device, or of the machine."""

from contextlib import suppress
from pathlib import Path

import torch

from autotune.workload.system.processor import read_text
from autotune.workload.window import Allocator


def peak_bytes(device: torch.device) -> int | None:
    """The most that a GPU had allocated, or that the process had in memory, since that peak began;
    None where nobody says.
    """
    if device.type == "cuda":
        try:  # torch's own counts nothing where it keeps nothing (PYTORCH_NO_CUDA_MEMORY_CACHING)
            return int(torch.cuda.max_memory_allocated(device)) or None
        except RuntimeError:  # an allocator of somebody else's keeps no account
            return None
    for line in read_text("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def reset_peak(device: torch.device) -> None:
    """Let the peak begin anew at what there is now, where the system permits that."""
    if device.type == "cuda":
        with suppress(RuntimeError):  # see `peak_bytes`
            torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM (proc(5))


def begin_peak(device: torch.device) -> None:
    """A window begins: the peak of a GPU is the window's own. What cuDNN takes once to choose among
    its algorithms, or a compiler to time its kernels, is most of what is free, and no step's.
    """
    if device.type == "cuda":
        _peaks[device] = max(_peaks.get(device, 0), peak_bytes(device) or 0)
        reset_peak(device)


# Of GPUs, before their peaks were last begun anew.
_peaks: dict[torch.device, int] = {}


def allocator(device: torch.device) -> Allocator | None:
    """The state of torch's allocator on a GPU; None on a CPU, and where it counts nothing (see
    `peak_bytes`).
    """
    if device.type != "cuda":
        return None
    try:
        known = torch.cuda.memory_stats(device)
    except RuntimeError:
        return None
    if not known.get("reserved_bytes.all.peak"):
        return None
    return Allocator(
        reserved_peak_bytes=known.get("reserved_bytes.all.peak"),
        allocated_peak_bytes=max(_peaks.get(device, 0), known.get("allocated_bytes.all.peak", 0)),
        reserved_bytes=known.get("reserved_bytes.all.current"),
        allocated_bytes=known.get("allocated_bytes.all.current"),
        inactive_split_bytes=known.get("inactive_split_bytes.all.current"),
        retries=known.get("num_alloc_retries"),
        out_of_memories=known.get("num_ooms"),
    )
