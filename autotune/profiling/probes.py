"""Short calculations that answer what would otherwise cost a trial."""

import math
import time
from collections.abc import Callable

# A square matrix product of this width takes about 10 ms on one core, long enough to tell and short
# enough to ask.
_WIDTH = 512
_REPEATS = 15
# Without units for it a product in bf16 takes many times as long, which fewer repeats tell as well.
_MOST_SECONDS = 0.5
# Numbers that fit a core's own cache; a third of the denormal one is denormal, too.
_NUMBERS, _DENORMAL = 1 << 14, 1e-40


def bf16_speedup() -> float:
    """How much faster a CPU multiplies matrices in bfloat16 than in float32 (0.2 where it has no
    units for it).
    """
    import torch

    whole, short = (
        torch.ones(_WIDTH, _WIDTH, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)
    )
    return _times_as_long(lambda: whole @ whole, lambda: short @ short, _MOST_SECONDS)


def denormal_times() -> float:
    """How many times as long the processor takes for a quotient that is denormal as for another: 1
    where it does so by itself, a hundred where it calls for help.
    """
    import torch

    small, usual = (torch.full((_NUMBERS,), number) for number in (_DENORMAL, 1.0))
    return _times_as_long(lambda: small / 3.0, lambda: usual / 3.0)


def _times_as_long(
    one: Callable[[], object], other: Callable[[], object], seconds: float = math.inf
) -> float:
    """How many times as long `one` takes as the `other`.

    It is asked of one thread, each in turn, and the fastest of many counts: two threads of which
    other programs take one's core run at a tenth of their speed.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rounds, ends = list[list[float]](), time.monotonic() + seconds
        while len(rounds) < _REPEATS and (len(rounds) < 2 or time.monotonic() < ends):
            rounds.append([_seconds(each) for each in (one, other)])
    finally:
        torch.set_num_threads(threads)
    return min(first for first, _ in rounds) / min(second for _, second in rounds)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
