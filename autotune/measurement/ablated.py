"""What timing a program with one cost taken away at a time has given so far."""

from dataclasses import dataclass, field

from autotune.measurement.filling import Filled
from autotune.measurement.first_epoch import FirstEpoch
from autotune.profiling.profile import LargestBatch
from autotune.profiling.telemetry import Telemetry
from autotune.workload.found import Again, BusyLine, Denormals, Operations
from autotune.workload.seen import Seen
from autotune.workload.window import Window


@dataclass(slots=True, kw_only=True)
class Ablation:
    """The windows of each mode, and why a mode has none; `ended` says that the program finished,
    and `stopped` how long no further step came of it as it is, where it was given up for that.

    `telemetry` is what the device said of itself while the program ran as it is, `lines` which of
    the program's own functions a step then waited for, `one_thread` how many times as fast one
    thread computes as all of the program's (None where that was not timed), `one_blas_thread` the
    same of NumPy's linear algebra and the whole program, `without_anomaly` that without anomaly
    detection, `filled` the cache that its first epoch made, and `first_epoch` that which it kept in
    memory; `caches` names what its dataset kept of each sample before it was timed, `kept` what it
    kept ever more of in memory while it was, and `beside` what processes that it has started needed
    of it, at several moments. `largest` is the largest batch of its data, where memory may be too
    little for it, `operations` are those that a step of it starts, `denormals` numbers that are too
    small for their format, and `again` says what its models give of one batch in another order or
    format.
    """

    seen: Seen
    warm: list[Window]
    startup_seconds: float
    windows: dict[str, list[Window]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    stopped: str = ""
    telemetry: Telemetry | None = None
    lines: tuple[BusyLine, ...] = ()
    one_thread: float | None = None
    one_blas_thread: float | None = None
    without_anomaly: float | None = None
    filled: Filled | None = None
    first_epoch: FirstEpoch | None = None
    caches: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    beside: list[int | None] = field(default_factory=list)
    largest: LargestBatch | None = None
    operations: Operations | None = None
    denormals: Denormals | None = None
    again: Again | None = None

    @property
    def longest_gap_seconds(self) -> float:
        """How long there was no step of it at the most: a long one, and what is none beside it."""
        windows = (*self.warm, *(each for some in self.windows.values() for each in some))
        gaps = (each.validation_seconds + max(each.step_seconds, default=0.0) for each in windows)
        return max(gaps, default=0.0)
