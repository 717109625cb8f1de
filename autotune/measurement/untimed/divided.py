"""Micro-batches held to their promise in a run that is not timed: they must add up to the step of
the whole batch.
"""

import math
from collections.abc import Sequence

from autotune.knobs.knob import Value
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetted import Start, Vetted
from autotune.workload.window import REHEARSE

# Batches that are trained whole and in parts, and how far their gradients may lie apart: float32
# sums in another order differ by 1e-7 to 1e-4; reduced precision, TF32 too, keeps 8 to 11 bits.
REHEARSALS = 3
ROUNDING, REDUCED_ROUNDING = 1e-3, 3e-2


def vet_micro_batches(start: Start, precision: str, values: Sequence[Value]) -> Vetted:
    """Which of these numbers of micro-batches add up to the step of the whole batch: all, or 1, in
    the `precision` that the program computes in as it is (`precision_of`).
    """
    most = max(int(value) for value in values)
    run = start({"micro_batches": most})
    try:
        window = run.window(0.0, steps=2 * REHEARSALS, mode=REHEARSE)
        apart = run.seen().rehearsed
        taken = window.losses[-2 * REHEARSALS :]  # those before are of the run's first step
        losses = list(zip(taken[::2], taken[1::2], strict=False))
        reason = _apart(losses, apart, most, reduced=precision != "fp32")
    except NotPossible as why:
        reason = f"whether parts of a batch add up to the same step could not be seen: {why}"
    except RunEnded as end:
        reason = f"a batch could not be trained in parts: {end.failure.reason}"
    finally:
        run.kill()
    return Vetted(values=(1,) if reason else tuple(values), reason=reason)


def _apart(
    losses: Sequence[tuple[float, float]], apart: float | None, parts: int, *, reduced: bool
) -> str:
    """Why `parts` micro-batches are another step than the whole batch; "" where they are not."""
    allowed = REDUCED_ROUNDING if reduced else ROUNDING
    shares = [abs(added - whole) / abs(whole) for whole, added in losses if whole]
    if apart is None:
        return "whether parts of a batch add up to the same step could not be seen"
    if apart <= allowed and max(shares, default=0.0) <= allowed:
        return ""
    ratios = [parts * added / whole for whole, added in losses if whole]
    if ratios and all(abs(ratio - 1) < 0.1 for ratio in ratios):
        why = "the loss adds up over its batch, as a sum does, and a mean does not"
    else:
        why = (
            "most likely something in it (the loss, a layer, what is done with the gradients) "
            "depends on the batch as a whole, or draws its own random numbers"
        )
    gradients, loss = (f"{100 * each:.1f} %" for each in (apart, max(shares, default=0.0)))
    if not math.isfinite(apart):
        gradients = "infinitely far"  # a weight has none there, or they are no numbers
    return (
        f"a batch trained in {parts} parts is another step: its gradients lie {gradients} apart, "
        f"and its loss {loss}; {why}"
    )
