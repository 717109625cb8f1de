"""What torch's anomaly detection costs a program that has it on: the loop without it, in turns."""

from autotune.measurement.beside import Windows, in_turns, surely_faster
from autotune.measurement.processes.process import ProcessRun
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, NO_ANOMALY


def without_anomaly(
    run: ProcessRun, seen: Seen, windows: Windows, *, seconds: float, cores: int
) -> float | None:
    """How many times as fast the program is without it, 1 at the most where not each turn was
    faster; None where it has not turned it on, or where it cannot be said.

    Arguments are those of `one_thread`.
    """
    if seen.places.anomaly is None:
        return None
    return surely_faster(
        windows, in_turns(run, NO_ANOMALY, AS_IS, windows, seconds=seconds, cores=cores)
    )
