"""What a GPU was seen to do, in rows of words: the same in the report and on the terminal."""

from collections.abc import Mapping

from autotune.diagnosis.finding import percent_or_less
from autotune.outputs.wording import NOT_MEASURED, counted, energy, percent, significant, size
from autotune.profiling.gpu import GpuProfile
from autotune.profiling.telemetry import Telemetry
from autotune.profiling.trace import COPY, DATA, LAUNCH, OTHER, SYNC, TO_DEVICE, TO_HOST

_IDLE = {
    DATA: "data",
    COPY: "copies that are waited for",
    SYNC: "waits of the host for it",
    LAUNCH: "launches",
    OTHER: "its own order of work",
}
_WAYS = {TO_DEVICE: "to the device", TO_HOST: "to the host", "DtoD": "within the device"}
_NOTABLE_SHARE, _NOTABLE_BYTES = 0.005, 1024  # of copies: in a step, a loss that is read is no more
_UNKNOWN = "unknown: the device does not say"


def device_rows(gpu: GpuProfile) -> dict[str, str]:
    """What is known of the device, by what it is about; what is not is said to be so."""
    trace = gpu.missing.get("trace", NOT_MEASURED)
    rows = {
        "Busy": f"{percent(gpu.busy_share)} of each step ran some kernel"
        if gpu.busy_share is not None
        else f"{NOT_MEASURED}: {trace}",
        "Idle for": _shares({_IDLE[cause]: share for cause, share in gpu.idle.items()}),
        "Copies": _copies(gpu),
        "Rate of copies": _rates(gpu),
        "Of its peak": _peak(gpu),
    }
    telemetry = gpu.telemetry
    if telemetry is None:
        rows["The driver"] = f"{NOT_MEASURED}: there is no NVML, or it says nothing"
    else:
        rows |= _told(telemetry, gpu.joules_per_sample)
    return {name: text for name, text in rows.items() if text}


def _told(telemetry: Telemetry, joules_per_sample: float | None) -> dict[str, str]:
    """What the driver says."""
    counters = telemetry.activity
    resident = telemetry.resident_share
    return {
        "Utilisation by NVML": _UNKNOWN
        if resident is None
        else f"{percent(resident)}: the time in which some kernel was resident, however small",
        "Own counters": ""
        if counters is None
        else _shares(
            {
                "multiprocessors": counters.sm_share,
                "occupancy": counters.occupancy,
                "tensor cores": counters.tensor_share,
                "memory bandwidth": counters.memory_share,
            }
        ),
        "Power": _UNKNOWN
        if telemetry.power_watts is None
        else f"{significant(telemetry.power_watts)} W"
        + ("" if joules_per_sample is None else f", {energy(joules_per_sample)}"),
        "Clocks": _clocks(telemetry),
        "PCIe": _link(telemetry),
        "Other processes": _UNKNOWN
        if telemetry.other_processes is None
        else counted(telemetry.other_processes, "process", "processes"),
    }


def _shares(shares: Mapping[str, float | None]) -> str:
    notable = {name: share for name, share in shares.items() if share and share > _NOTABLE_SHARE}
    return ", ".join(f"{name} {percent(share)}" for name, share in notable.items())


def _copies(gpu: GpuProfile) -> str:
    if gpu.trace is None:
        return ""
    told = [
        f"{_way(each.direction)} {size(each.bytes // gpu.trace.steps)} a step"
        + (f", {each.memory}" if each.memory else "")
        for each in gpu.trace.copies
        if each.bytes >= _NOTABLE_BYTES * gpu.trace.steps
    ]
    hidden = gpu.trace.hidden_share
    if hidden is not None:
        told.append(f"kernels ran beside {percent(hidden)} of those to the device")
    return "; ".join(told)


def _way(direction: str) -> str:
    return _WAYS.get(direction, direction)


def _rates(gpu: GpuProfile) -> str:
    """How fast copies of a batch's size go between host and device, and what their link carries."""
    known = [
        (each, each.bytes_per_second)
        for each in (gpu.trace.copies if gpu.trace else ())
        if each.memory and each.bytes_per_second
    ]
    told = [f"{_way(each.direction)} {rate / 1e9:.1f} GB/s, {each.memory}" for each, rate in known]
    link = gpu.telemetry.link_bytes_per_second if gpu.telemetry else None
    if link is None or any(rate > link for _, rate in known):  # it has another link, then
        beside = "what the link could carry is unknown"
    else:
        beside = f"of {link / 1e9:.1f} GB/s that the PCIe link could carry"
    return "; ".join([*told, beside]) if told else ""


def _peak(gpu: GpuProfile) -> str:
    if gpu.mfu is None:
        why = gpu.missing.get("flops") or gpu.missing.get("peak")
        return f"unknown: {why}" if why else NOT_MEASURED
    return f"{percent_or_less(gpu.mfu)} of what it could compute in {gpu.precision} (MFU)"


def _clocks(telemetry: Telemetry) -> str:
    hertz = {"multiprocessors": telemetry.sm_clock_hertz, "memory": telemetry.memory_clock_hertz}
    known = [f"{name} {value / 1e6:,.0f} MHz" for name, value in hertz.items() if value is not None]
    slowed = _shares(telemetry.slowed or {})
    return "; ".join(
        [", ".join(known) or _UNKNOWN, *([f"kept down by {slowed}"] if slowed else [])]
    )


def _link(telemetry: Telemetry) -> str:
    generation, width, limit = (
        telemetry.pcie_generation,
        telemetry.pcie_width,
        telemetry.pcie_limit,
    )
    if generation is None or width is None:
        return _UNKNOWN
    of = f", of {limit[0]} and {limit[1]} that it could have" if limit else ""
    return f"generation {generation}, width {width}{of}"
