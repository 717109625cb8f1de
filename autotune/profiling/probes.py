"""Short calculations that answer what would otherwise cost a trial."""

import time

# A square matrix product of this width takes about 10 ms on one core, long enough to tell and short
# enough to ask.
_WIDTH = 512
_REPEATS = 5


def bf16_speedup(device: str) -> float:
    """How much faster the device multiplies matrices in bfloat16 than in float32 (0.2 where it has
    no units for it).
    """
    import torch

    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(_WIDTH, _WIDTH, device=device, dtype=dtype)
        best = float("inf")
        for _ in range(_REPEATS):
            _wait(device)
            began = time.perf_counter()
            matrix @ matrix
            _wait(device)
            best = min(best, time.perf_counter() - began)
        seconds[dtype] = best
    return seconds[torch.float32] / seconds[torch.bfloat16]


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
