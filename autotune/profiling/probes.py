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
# Numbers that fit a core's own cache; a third of the denormal one is denormal, too.
_NUMBERS, _DENORMAL = 1 << 14, 1e-40


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


def denormal_times() -> float:
    """How many times as long the processor takes for a quotient that is denormal as for another: 1
    where it does so by itself, a hundred where it calls for help.

    Asked of one thread, in turns, and the fastest of many counts, as in `bf16_speedup`.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        usual, small = (torch.full((_NUMBERS,), number) for number in (1.0, _DENORMAL))
        rounds = [[_times_a_third(each) for each in (usual, small)] for _ in range(_REPEATS)]
    finally:
        torch.set_num_threads(threads)
    times: float = min(long for _, long in rounds) / min(short for short, _ in rounds)
    return times


def _times_a_third(numbers: "torch.Tensor") -> float:
    began = time.perf_counter()
    numbers / 3.0
    return time.perf_counter() - began


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
