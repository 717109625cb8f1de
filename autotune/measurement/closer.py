"""What is looked for in a run once every mode of its program has been timed."""

from dataclasses import replace

from autotune.measurement.ablated import Ablation
from autotune.measurement.beside import one_blas_thread, one_thread, with_cost, without_anomaly
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.readings.memory import most
from autotune.measurement.readings.telemetry import trains_on_gpu
from autotune.measurement.untimed.largest import largest_batch
from autotune.measurement.untimed.looks import busy_lines, computed_again, operations
from autotune.profiling.profile import LargestBatch
from autotune.workload.window import AS_IS

# Of the time that the modes get: looking at the program's lines, timing one thing beside the
# program as it is, and going over its batches.
LINES_SHARE, BESIDE_SHARE, LARGEST_SHARE = 0.1, 0.15, 0.2


def look_closer(
    ablation: Ablation, run: ProcessRun, seconds: float, cores: int, memory_limited: bool
) -> None:
    """Take down in `ablation` what its windows do not say, in `seconds` and some more, on so many
    `cores`; `memory_limited` says that it is not to take more than so much.
    """
    windows = ablation.windows[AS_IS]
    timed = len(windows)
    now = run.seen()  # what was there at the first window is not the whole of it
    ablation.seen = replace(
        ablation.seen,
        process_beside=now.process_beside,
        taking_turns=now.taking_turns,
        passes=now.passes,
    )
    ablation.lines = busy_lines(run, ablation.seen, windows, seconds=LINES_SHARE * seconds)
    asked = run, ablation.seen, ablation.windows, BESIDE_SHARE * seconds, cores
    ablation.one_thread = one_thread(*asked)
    ablation.one_blas_thread = one_blas_thread(*asked)
    ablation.without_anomaly = without_anomaly(*asked)
    ablation.largest = _largest(ablation, run, LARGEST_SHARE * seconds, memory_limited)
    ablation.operations = operations(run, ablation.seen, windows)
    ablation.denormals = with_cost(
        ablation.denormals, run, ablation.windows, seconds=BESIDE_SHARE * seconds, cores=cores
    )
    ablation.again = computed_again(run, ablation.seen, windows)  # the last: of other weights
    if not trains_on_gpu(ablation.seen):  # a process's peak has in it what these looks took
        windows[timed:] = [replace(each, peak_bytes=None) for each in windows[timed:]]


def _largest(
    ablation: Ablation, run: ProcessRun, seconds: float, limited: bool
) -> LargestBatch | None:
    """Of a run that goes on; one that ends so early has had most of its batches timed."""
    if not (limited or trains_on_gpu(ablation.seen)):
        return None
    return largest_batch(
        run,
        ablation.seen,
        seconds=seconds,
        last=ablation.windows[AS_IS][-1],
        beside_bytes=most(ablation.beside),
    )
