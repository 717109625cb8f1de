"""Each finding of a device goes, or comes, with one field of what was measured."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autotune.diagnosis import diagnose
from autotune.profiling.profile import LargestBatch, Profile
from autotune.profiling.trace import COPY, DATA, LAUNCH, OTHER, SYNC
from tests import builders
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
