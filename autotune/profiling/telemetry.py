"""What the device said of itself while a run was timed, summed up from readings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from autotune.nvml import Activity, Reading
from autotune.workload.window import Window

# A counter of energy goes forward every 20 to 100 ms (PETSc's manual, PetscLogGpuEnergyMeter): over
# less than this its ends are more than a tenth.
LEAST_ENERGY_SECONDS = 1.0
# The device's own counters are renewed as often (NVML's reference, nvmlGpmMetricsGet).
LEAST_COUNTED_SECONDS = 0.1
# Bytes a second that one lane carries one way, by the link's generation: its transfers a second, of
# which the line code leaves 8 of 10 bits, then 128 of 130, then 242 of 256 (PCI Express Base
# Specification, revisions 1.0 to 6.0).
_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The device during timed windows; None is "unknown": the device or its driver does not say.

    Attributes:
        seconds: from the first reading to the last.
        readings: how many there were.
        resident_share: the mean share of the time in which some kernel was resident, which
            `nvidia-smi` calls utilisation: it says nothing of how much of the device worked.
        memory_peak_bytes: the most that was in use on the device at a reading, by whomever.
        power_watts: mean power of the board, from its energy where it counts that.
        energy_joules: that the board used in `seconds`.
        sm_clock_hertz, memory_clock_hertz: means.
        slowed: the share of the readings at which something kept the clocks down, by its name.
        pcie_generation, pcie_width: the best that the link was at.
        pcie_limit: generation and width that the link could have in this machine.
        other_processes: that computed on the device besides the run; unknown where the driver does
            not list the run itself, as in a container that counts processes for itself, or did not
            look at what processes did meanwhile.
        activity: by the device's own counters; unknown of less time than they take to be renewed.
    """

    seconds: float
    readings: int
    resident_share: float | None = None
    memory_peak_bytes: int | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    sm_clock_hertz: float | None = None
    memory_clock_hertz: float | None = None
    slowed: Mapping[str, float] | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_limit: tuple[int, int] | None = None
    other_processes: int | None = None
    activity: Activity | None = None

    @property
    def link_bytes_per_second(self) -> float | None:
        """What the PCIe link of this machine could carry one way; None is "unknown"."""
        generation, width = self.pcie_limit or (0, 0)
        lane = _LANE.get(generation)
        return lane * width if lane and width else None


def sum_up(
    readings: Sequence[Reading],
    *,
    pcie_limit: tuple[int, int] | None = None,
    other_processes: int | None = None,
    activity: Activity | None = None,
) -> Telemetry:
    """The Telemetry of `readings`, oldest first, and of what was asked once."""
    seconds = readings[-1].seconds - readings[0].seconds if readings else 0.0
    energy = _spent(readings)
    power = _mean(readings, lambda each: each.power_watts)
    return Telemetry(
        seconds=seconds,
        readings=len(readings),
        resident_share=_mean(readings, lambda each: each.resident_share),
        memory_peak_bytes=_most(readings, lambda each: each.memory_bytes),
        power_watts=energy / seconds if energy is not None and seconds > 0 else power,
        energy_joules=energy,
        sm_clock_hertz=_mean(readings, lambda each: each.sm_clock_hertz),
        memory_clock_hertz=_mean(readings, lambda each: each.memory_clock_hertz),
        slowed=_slowed(readings),
        pcie_generation=_most(readings, lambda each: each.pcie_generation),
        pcie_width=_most(readings, lambda each: each.pcie_width),
        pcie_limit=pcie_limit,
        other_processes=other_processes,
        activity=activity if seconds > LEAST_COUNTED_SECONDS else None,
    )


def joules_per_sample(telemetry: Telemetry | None, windows: Sequence[Window]) -> float | None:
    """What the board used for each sample that was trained on in `windows`, during which
    `telemetry` was taken.

    None is unknown: the device does not say, was read too briefly, or worked for others too.
    """
    samples = sum(window.samples for window in windows)
    if telemetry is None or not telemetry.power_watts or not samples:
        return None
    if telemetry.seconds < LEAST_ENERGY_SECONDS or telemetry.other_processes:
        return None
    return telemetry.power_watts * sum(window.seconds for window in windows) / samples


def _spent(readings: Sequence[Reading]) -> float | None:
    """Energy from the first reading to the last; one that went down was counted anew, and one that
    stands still does not count.
    """
    known = [each.energy_joules for each in readings if each.energy_joules is not None]
    if len(known) < 2 or len(known) < len(readings) or known[-1] <= known[0]:
        return None
    return known[-1] - known[0]


def _slowed(readings: Sequence[Reading]) -> dict[str, float] | None:
    known = [each.slowed_by for each in readings if each.slowed_by is not None]
    if not known:
        return None
    names = dict.fromkeys(name for reasons in known for name in reasons)
    return {name: sum(name in reasons for reasons in known) / len(known) for name in names}


def _mean(readings: Sequence[Reading], figure: Callable[[Reading], float | None]) -> float | None:
    known = [value for each in readings if (value := figure(each)) is not None]
    return fmean(known) if known else None


def _most(readings: Sequence[Reading], figure: Callable[[Reading], int | None]) -> int | None:
    return max((value for each in readings if (value := figure(each)) is not None), default=None)
