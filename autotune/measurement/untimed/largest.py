"""Memory at the largest batch of a program's data: found in a run that is timed no more, and
trained on there.
"""

from autotune.measurement.processes.process import NotPossible, ProcessRun, RunEnded
from autotune.measurement.readings.memory import ran_out
from autotune.profiling.profile import LargestBatch
from autotune.workload.seen import Seen
from autotune.workload.window import LARGEST, Sizes, Window

# Steps on each batch: the first may still hold what came before it.
STEPS = 2


def largest_batch(
    run: ProcessRun, seen: Seen, *, seconds: float, last: Window, beside_bytes: int | None
) -> LargestBatch | None:
    """The largest batch of an epoch, and what training on it takes; None where all are of one size.
    The `run`, of which the `last` window was timed, goes over its batches for `seconds`, with no
    model, and is of no use afterwards; processes that it has started need `beside_bytes` of main
    memory, None where that is unknown.
    """
    try:
        sizes = run.survey(seconds)
    except NotPossible as why:
        return LargestBatch(reason=str(why)) if seen.shapes > 1 else None
    except RunEnded as end:
        return LargestBatch(reason=end.failure.reason) if seen.shapes > 1 else None
    if not sizes.varied:
        several = f"{sizes.looked_at} were looked at in the time that there was, and are alike"
        few = several if sizes.looked_at > 1 else "there was time to look at one alone"
        whole = sizes.looked_at == sizes.of
        return LargestBatch(reason=few) if seen.shapes > 1 and not whole else None
    tried, fits, reason = _train(run, seen, sizes, last, beside_bytes or 0)
    largest = sizes.batches[-1]
    return LargestBatch(
        looked_at=sizes.looked_at,
        of=sizes.of,
        shapes=largest.shapes,
        samples=largest.samples,
        elements=largest.elements,
        usual_elements=sizes.first_elements,
        tried=tuple(tried),
        fits=fits,
        reason=reason,
    )


def _train(
    run: ProcessRun, seen: Seen, sizes: Sizes, last: Window, beside_bytes: int
) -> tuple[list[tuple[int, int]], bool | None, str]:
    """Elements and peak of each batch that was trained on, whether all of them fitted (None where
    not all were trained on), and why not.
    """
    steps = STEPS + (seen.loader.ahead if seen.loader else 0)
    tried: list[tuple[int, int]] = []
    for batch in sizes.batches:
        try:
            window = run.window(0.0, mode=LARGEST, steps=steps)
        except NotPossible as why:
            return tried, None, str(why)
        except RunEnded as end:
            lacked = end.failure.kind in ("out_of_memory", "killed")
            return tried, False if lacked else None, end.failure.reason
        drawn_anew = window.samples > window.steps * seen.micro_batches * batch.samples
        if drawn_anew and ran_out([last, window]):  # the program has left that batch out
            return tried, False, "the device had no memory for it"
        if window.peak_bytes is not None:
            tried.append((batch.elements, window.peak_bytes + beside_bytes))
    return tried, True, ""
