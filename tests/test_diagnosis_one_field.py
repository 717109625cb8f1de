"""Each finding of a device goes, or comes, with one field of what was measured: of made-up runs,
and of runs recorded on a GPU.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from autotune.diagnosis import diagnose
from autotune.outputs.document import from_document
from autotune.profiling.profile import Ceiling, LargestBatch, Profile
from autotune.profiling.trace import COPY, DATA, LAUNCH, OTHER, PAGEABLE, SYNC, TO_HOST, Copies
from tests import builders
from tests.recorded import FOLDER
from tests.test_diagnosis_device import BATCH, on_device

GIB = 1 << 30


def set_in(whole: Any, path: str, value: Any) -> Any:
    """`whole` with one field set, of an object or a mapping inside it."""
    name, _, rest = path.partition(".")
    if isinstance(whole, Mapping):
        return {**whole, name: value}
    if rest:
        value = set_in(getattr(whole, name), rest, value)
    return replace(whole, **{name: value})


def small_parts() -> Profile:
    memory = replace(
        builders.profile().memory,
        peak_bytes=12 * GIB,
        activation_bytes=8 * GIB,
        capacity_bytes=80 * GIB,
    )
    seen = builders.seen()
    assert seen.loader is not None
    models = tuple(replace(model, batch_norms=0) for model in seen.models)
    loader = replace(seen.loader, batch_size=64)
    seen = replace(seen, micro_batches=8, samples_per_step=512.0, loader=loader, models=models)
    return on_device({OTHER: 0.4}, memory=memory, seen=seen)


LAUNCHING = on_device({LAUNCH: 0.4}, trace={"kernel_seconds": 8e-6})
COPYING = on_device({COPY: 0.3})
CALM = on_device()
RETRIED = set_in(CALM, "gpu.allocator_retries", 1)
FULL = set_in(CALM, "memory.peak_bytes", 79 * GIB)
HELD = set_in(CALM, "memory.reserved_bytes", 70 * GIB)
NORMED = tuple(replace(model, batch_norms=1) for model in builders.seen().models)
LARGEST = LargestBatch(
    looked_at=10, of=10, samples=64, elements=640, tried=((640, 12 * GIB),), fits=True
)
ROOMY = set_in(small_parts(), "memory.capacity_bytes", 24 * GIB)
TRAINED = set_in(small_parts(), "memory.largest", LARGEST)

# What is said; of which profile; the one field, and the value with which it is said no more.
FLIPS: dict[str, tuple[str, Profile, str, Any]] = {
    "sync": ("Lets the device run dry", on_device({SYNC: 0.3}), "gpu.idle.sync", 0.0),
    "sync, no trace": ("Lets the device run dry", on_device({SYNC: 0.3}), "gpu.trace", None),
    "launch": ("waiting for launches", LAUNCHING, "gpu.idle.launch", 0.05),
    "launch, busy": ("waiting for launches", LAUNCHING, "gpu.busy_share", 0.9),
    "launch, long": ("waiting for launches", LAUNCHING, "gpu.trace.kernel_seconds", 190e-6),
    "launch, loader": ("waiting for launches", LAUNCHING, f"gpu.idle.{DATA}", 0.5),
    "launch, no trace": ("waiting for launches", LAUNCHING, "gpu.trace", None),
    "retries": ("Runs into the end", RETRIED, "gpu.allocator_retries", 0),
    "held": ("the memory that it uses at most", HELD, "memory.reserved_bytes", 40 * GIB),
    "held, used": ("the memory that it uses at most", HELD, "memory.peak_bytes", 60 * GIB),
    "full": ("of the device's memory at its peak", FULL, "memory.peak_bytes", 60 * GIB),
    "full, larger": ("of the device's memory at its peak", FULL, "memory.capacity_bytes", 90 * GIB),
    "parts": ("small batches a step", small_parts(), "seen.micro_batches", 1),
    "parts, busy": ("small batches a step", small_parts(), "gpu.busy_share", 0.9),
    "parts, norm": ("small batches a step", small_parts(), "seen.models", NORMED),
    "parts, optimizers": ("small batches a step", small_parts(), "seen.optimizers", 2),
    "parts, of one batch": ("small batches a step", small_parts(), "seen.samples_per_step", 64.0),
    "parts, shapes": ("small batches a step", small_parts(), "seen.shapes", 3),
    # Of 12 GiB at 64 samples all but 1 then grow with them: 23 at 128 are more than 92 % of 24.
    "parts, workspace": ("small batches a step", ROOMY, "memory.workspace_bytes", 3 * GIB),
    "parts, full": ("small batches a step", small_parts(), "memory.capacity_bytes", 15 * GIB),
    "parts, not whole": ("small batches a step", TRAINED, "memory.largest.looked_at", 9),
    "parts, not tried": ("small batches a step", TRAINED, "memory.largest.fits", None),
}


def headlines(profile: Profile) -> str:
    return "\n".join(finding.headline for finding in diagnose(profile))


@pytest.mark.parametrize(("said", "profile", "path", "value"), FLIPS.values(), ids=FLIPS)
def test_a_finding_goes_with_one_field(said: str, profile: Profile, path: str, value: Any) -> None:
    assert said in headlines(profile)
    assert said not in headlines(set_in(profile, path, value))


def test_memory_is_full_by_the_largest_batch_alone() -> None:
    larger = replace(LARGEST, tried=((640, 79 * GIB),))
    assert "on the largest batch" not in headlines(CALM)
    assert "on the largest batch" in headlines(set_in(CALM, "memory.largest", larger))


@pytest.mark.parametrize(("path", "value"), [("gpu.trace.copies", ()), ("gpu.trace", None)])
def test_copies_are_told_by_the_trace_alone(path: str, value: Any) -> None:
    told = "MB from"
    assert BATCH in (COPYING.gpu.trace.copies if COPYING.gpu and COPYING.gpu.trace else ())
    assert any(told in each.evidence for each in diagnose(COPYING))
    assert not any(told in each.evidence for each in diagnose(set_in(COPYING, path, value)))


def recorded(name: str) -> Profile:
    document = json.loads((FOLDER / f"{name}.json").read_text())
    return from_document(document["measured"]["result"]).profile


def of_batches(**changes: Any) -> Callable[[tuple[Copies, ...]], tuple[Copies, ...]]:
    """Copies with those from pageable memory changed, as batches are copied there."""
    return lambda copies: tuple(
        replace(each, **changes) if each.memory == PAGEABLE else each for each in copies
    )


def of_ceiling(name: str, **changes: Any) -> Callable[[tuple[Ceiling, ...]], tuple[Ceiling, ...]]:
    return lambda ceilings: tuple(
        replace(each, **changes) if each.name == name else each for each in ceilings
    )


HEALTHY, TINY = recorded("planted-healthy"), recorded("planted-tiny_kernels")
WAITING, PAGED = recorded("planted-item_costly"), recorded("planted-pageable")
SLOW, BUSY = recorded("planted-slow_loader"), recorded("rivals-transformer-ours")
HOLDING = set_in(HEALTHY, "memory.reserved_bytes", 100 * GIB)
FILLED = set_in(HEALTHY, "memory.capacity_bytes", 2_300_000_000)
COPIES, CEILINGS = "gpu.trace.copies", "ceilings"
UNKNOWN = {"samples_per_second": None, "max_gain": None}
WAITS, LATE = "Lets the device run dry", "waiting for launches"

# Of a recorded run the one field, and its value, or what makes that of what was measured; what is
# said no more, and what is said then.
CHANGED: dict[str, tuple[Profile, str, Any, str, str]] = {
    "waits, share": (WAITING, "gpu.idle.sync", 0.4, "", f"{WAITS} 40 %"),
    "waits, none": (WAITING, "gpu.idle.sync", 0.0, WAITS, ""),
    "waits, lines": (WAITING, "gpu.syncs", (), "planted.py:", "torch did not say where"),
    "waits, number": (WAITING, "gpu.trace.syncs_per_step", 3.0, "240 times", "device 3 times a"),
    "launches, none": (TINY, "gpu.idle.launch", 0.0, LATE, ""),
    "launches, kernels": (TINY, "gpu.trace.kernels", 800, "487 kernels a", "100 kernels a"),
    "launches, steps": (TINY, "gpu.trace.steps", 4, "487 kernels a", "974 kernels a"),
    "launches, length": (TINY, "gpu.trace.kernel_seconds", 9e-6, "", "of 9 µs each"),
    "launches, busy": (TINY, "gpu.busy_share", 0.5, "", "is busy 50 % of the time"),
    "launches, not known": (TINY, "gpu.busy_share", None, LATE, ""),
    "launches, Python": (TINY, "phases.other", 0.5, "", "other code of its own 50 %"),
    "launches, next": (BUSY, "gpu.trace.idle.launch", 0.0, "Launching its", ""),
    "launches, first": (BUSY, "gpu.busy_share", 0.5, "Launching its", ""),
    "copies, exposed": (HEALTHY, "gpu.exposed_copy_share", 0.3, "", "to the device 30 % of each"),
    "copies, waited for": (HEALTHY, "gpu.idle.copy", 0.3, "", "copy: Copies batches"),
    "copies, phase": (PAGED, "phases.copy", 0.95, "", "to the device 95 % of each step"),
    "copies, ceiling": (PAGED, CEILINGS, of_ceiling("compute", max_gain=2.0), "", "up to 2.00×."),
    "copies, no trace": (PAGED, "gpu.trace", None, "kernels run beside", "Each batch of"),
    "copies, pinned": (PAGED, COPIES, of_batches(memory="pinned"), "program wait", "from pinned"),
    "copies, small": (PAGED, COPIES, of_batches(largest_bytes=4), "beside", "Each batch of"),
    "copies, back": (PAGED, COPIES, of_batches(direction=TO_HOST), "beside", "Each batch of"),
    "copies, bytes": (PAGED, COPIES, of_batches(bytes=8_000_000), "", "step copies 1.0 MB from"),
    "copies, rate": (PAGED, COPIES, of_batches(bytes_per_second=4e9), "", "goes at 4.0 GB/s from"),
    "copies, no rate": (PAGED, COPIES, of_batches(bytes_per_second=None), "That goes at", ""),
    "copies, hidden": (PAGED, "gpu.trace.hidden_share", 0.98, "not overlapped", "beside 98 %"),
    "copies, beside": (PAGED, "gpu.trace.hidden_share", None, "kernels run beside", ""),
    "link, generation": (PAGED, "gpu.telemetry.pcie_generation", 3, "", "generation 3 and width"),
    "link, width": (PAGED, "gpu.telemetry.pcie_width", 8, "", "and width 8 of"),
    "link, limit": (PAGED, "gpu.telemetry.pcie_limit", (4, 16), "63.0 GB/s", "31.5 GB/s"),
    "link, no limit": (PAGED, "gpu.telemetry.pcie_limit", None, "PCIe link", ""),
    "link, not known": (PAGED, "gpu.telemetry", None, "PCIe link", ""),
    "data, share": (SLOW, "phases.data", 0.05, "Waits for data", ""),
    "data, ceiling": (SLOW, CEILINGS, of_ceiling("host", max_gain=1.0), "critical", "not timed"),
    "data, alone": (SLOW, CEILINGS, of_ceiling("data", **UNKNOWN), "The loader alone", ""),
    "data, subtracted": (SLOW, CEILINGS, of_ceiling("compute", reason=""), "without", "ing alone"),
    "data, at work": (SLOW, "data_processor_share", 0.9, "waits itself", "keeps 0.9 of"),
    "data, not known": (SLOW, "data_processor_share", None, "waits itself", "was not measured"),
    "data, workers": (SLOW, "seen.loader.num_workers", 2, "with no workers", "with 2 workers"),
    "data, thread": (SLOW, "seen.loader.threaded", True, "no workers", "thread of the program"),
    "data, lines": (SLOW, "lines", (), "in __getitem__", ""),
    "peak, not known": (HEALTHY, "gpu.mfu", None, "of the device's peak", ""),
    "peak, format": (HEALTHY, "gpu.precision", "bf16", "peak in fp32", "peak in bf16"),
    "in time": (HEALTHY, CEILINGS, of_ceiling("data", **UNKNOWN), "data arrives in time", ""),
    "optimizer": (HEALTHY, "phases.optimizer", 0.3, "", "Updates weights 30 % of each step"),
    "retries": (HEALTHY, "gpu.allocator_retries", 45, "", "gave its cache back 45 times"),
    "filled": (HEALTHY, "memory.peak_bytes", 1 << 50, "", "critical memory: Fills"),
    "limit": (FILLED, "memory.is_limit", True, "the device's memory", "of the memory limit"),
    "held": (HEALTHY, "memory.reserved_bytes", 100 * GIB, "", "memory that it uses at most"),
    "held, in use": (HOLDING, "memory.allocated_bytes", 60 * GIB, "that it uses at most", ""),
    "held, between": (HOLDING, "gpu.allocator.inactive_split_bytes", 9 * GIB, "", "9.0 GiB lay"),
    "held, not known": (HOLDING, "gpu.allocator", None, "lay between blocks in use", ""),
}


def said(profile: Profile) -> str:
    return "\n".join(
        f"{each.severity} {each.bottleneck}: {each.headline} {each.evidence}"
        for each in diagnose(profile)
    )


def changed(profile: Profile, path: str, value: Any) -> Profile:
    if callable(value):
        measured: Any = profile
        for name in path.split("."):
            measured = getattr(measured, name)
        value = value(measured)
    return set_in(profile, path, value)


@pytest.mark.parametrize(
    ("profile", "path", "value", "no_more", "then"), CHANGED.values(), ids=CHANGED
)
def test_a_recorded_run_is_diagnosed_by_each_field(
    profile: Profile, path: str, value: Any, no_more: str, then: str
) -> None:
    before, after = said(profile), said(changed(profile, path, value))
    assert no_more in before and then in after
    assert not no_more or no_more not in after
    assert not then or then not in before
