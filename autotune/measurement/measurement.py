"""What one timed run gave: a measurement with its doubts, or a failure with its reason."""

from dataclasses import dataclass

from autotune.profiling.profile import SHAKEN, Doubt
from autotune.workload.seen import Seen
from autotune.workload.window import Window

# How the reason of a failure begins where a hook is to blame, and not the program.
OUR_FAULT = "autotune itself failed in the program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A timed run: samples per second over its windows, with a 95 % interval and all that it was
    computed from. `peak_bytes` is all that it takes of the device's memory, on a CPU of the
    machine's. `joules_per_sample` is of the GPU's board, None where that is not known.
    """

    samples_per_second: float
    interval: tuple[float, float]
    windows: tuple[Window, ...]
    seen: Seen
    startup_seconds: float
    peak_bytes: int | None
    losses: tuple[float, ...]
    doubts: tuple[Doubt, ...] = ()
    joules_per_sample: float | None = None

    @property
    def is_shaken(self) -> bool:
        """Whether the machine may have stood still meanwhile, or the program has come to its speed:
        then it is no measure for others.
        """
        return any(doubt.name in SHAKEN for doubt in self.doubts)

    @property
    def moves_no_weights(self) -> bool:
        """Whether a GradScaler left out every step that was timed. Those that it leaves out by not
        calling the optimizer are not among `steps`, but have a loss.
        """
        timed = sum(max(window.steps, len(window.losses)) for window in self.windows)
        return 0 < timed <= sum(window.skipped_steps for window in self.windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that gave no measurement. `kind` is one of the names below, `reason` one sentence.

    "out_of_memory", "device_error" (a kernel failed), "device_lost", "crashed", "hung",
    "not_finite", "void" (a setting was asked for and not observed), "killed", "ended" (the program
    finished before anything could be measured), "busy" (the machine did not give it its processors
    whenever it was run), "no_space" (what it wrote filled the disk).
    """

    kind: str
    reason: str
    output: str = ""
