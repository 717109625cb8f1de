"""Waiting until a GPU has nothing left to do: the host may be many steps ahead of it."""

import time

import torch


def seconds_until_idle(device: torch.device) -> float:
    """Wait for what a GPU still has to do; for how long. Nothing else is waited for, and nothing
    while a graph is captured.
    """
    if device.type != "cuda" or is_capturing():
        return 0.0
    began = time.perf_counter()
    torch.cuda.synchronize(device)
    return time.perf_counter() - began


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured, which waiting for the device would spoil."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
