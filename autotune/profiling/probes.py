"""Short calculations that answer what would otherwise cost a trial."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# A square matrix product of this width takes about 10 ms on one core, long enough to tell and short
# enough to ask.
_WIDTH = 512
_REPEATS = 15
# Without units for it a product in bf16 takes many times as long, which fewer repeats tell as well.
_MOST_SECONDS = 0.5


def bf16_speedup(device: str) -> float:
    """How much faster the device multiplies matrices in bfloat16 than in float32 (0.2 where it has
    no units for it).

    On a CPU it is asked of one thread, each format in turn, and the fastest of many products
    counts: two threads of which other programs take one's core run at a tenth of their speed.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        matrices = [
            torch.ones(_WIDTH, _WIDTH, device=device, dtype=dtype)
            for dtype in (torch.float32, torch.bfloat16)
        ]
        rounds, ends = list[list[float]](), time.monotonic() + _MOST_SECONDS
        while len(rounds) < _REPEATS and (len(rounds) < 2 or time.monotonic() < ends):
            rounds.append([_product_seconds(each, device) for each in matrices])
    finally:
        torch.set_num_threads(threads)
    speedup: float = min(whole for whole, _ in rounds) / min(short for _, short in rounds)
    return speedup


def _product_seconds(matrix: "torch.Tensor", device: str) -> float:
    _wait(device)
    began = time.perf_counter()
    matrix @ matrix
    _wait(device)
    return time.perf_counter() - began


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
