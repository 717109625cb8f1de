"""Recorded runs of a real GPU replayed: each is diagnosed as it was, and a change of one thing that
was measured changes the diagnosis as it should.

Beside them a stand-in is replayed, made up here, which says nothing of any device.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.diagnosis import Bottleneck, Finding, diagnose
from autotune.outputs.document import from_document, to_document
from autotune.profiling.gpu import GpuProfile
from autotune.profiling.profile import Ceiling, Profile
from autotune.profiling.trace import COPY, LAUNCH, OTHER, PINNED, SYNC, TO_DEVICE, Copies, Trace
from tests import builders
from tests.knobs.profiles import ceilings, on_a_gpu
from tests.recorded import PATHS, Recording, are_alike, read, recordings

RECORDED = recordings()
BUSY = {"data": 0.01, "copy": 0.01, "forward": 0.33, "backward": 0.6, "optimizer": 0.05}


# Made up: a device that is busy, with kernels that hide the copies of pinned batches.
GPU = GpuProfile(
    busy_share=0.93,
    idle={LAUNCH: 0.04, OTHER: 0.03},
    trace=Trace(
        steps=5,
        seconds=0.15,
        busy_share=0.93,
        kernels=600,
        kernel_seconds=230e-6,
        copies=(
            Copies(
                direction=TO_DEVICE,
                memory=PINNED,
                count=10,
                bytes=7_865_600,
                seconds=0.001,
                largest_bytes=1_572_864,
            ),
        ),
        hidden_share=0.97,
        idle={LAUNCH: 0.04, OTHER: 0.03},
    ),
)


def stand_in(**changes: Any) -> Profile:
    """A made-up profile of a program that keeps a GPU busy; no device has ever given it."""
    given: dict[str, Any] = {
        "phases": BUSY,
        "ceilings": ceilings(compute=1.02, host=1.01, data=4.0),
        "windows": (),
        "step_seconds": 0.03,
        "gpu": GPU,
    }
    return on_a_gpu(**given | changes)


PROFILES: dict[str, Profile] = {
    "a stand-in": stand_in(),
    **{each.name: each.result.profile for each in RECORDED},
}
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
every_recording = pytest.mark.parametrize("recording", RECORDED, ids=lambda each: each.name)


def found(profile: Profile) -> Mapping[Bottleneck, Finding]:
    return {finding.bottleneck: finding for finding in diagnose(profile)}


def taking(profile: Profile, phase: str, share: float) -> Profile:
    """`profile` with one phase at `share` of a step, the others as they were to one another."""
    rest = 1 - profile.phases.get(phase, 0.0)
    phases = {name: part * (1 - share) / rest for name, part in profile.phases.items()}
    return replace(profile, phases={**phases, phase: share}, windows=())


def on_device(profile: Profile, *, idle: Mapping[str, float], **changes: Any) -> Profile:
    """`profile` with a device that is idle for a share of a step by cause, and other changes; where
    no trace was taken, the stand-in's is changed.
    """
    gpu = profile.gpu if profile.gpu and profile.gpu.trace else GPU
    return replace(profile, gpu=replace(gpu, idle={**gpu.idle, **idle}, **changes))


def with_copies(profile: Profile, share: float) -> Profile:
    """`profile` with batches' copies for which the device is idle for `share` of a step."""
    copied = on_device(profile, idle={COPY: share}, exposed_copy_share=0.0)
    assert copied.gpu and copied.gpu.trace and GPU.trace
    trace = replace(copied.gpu.trace, copies=GPU.trace.copies)
    return replace(copied, gpu=replace(copied.gpu, trace=trace))


def with_short_kernels(profile: Profile) -> Profile:
    """`profile` with kernels that take less time than to launch them."""
    short = on_device(profile, idle={LAUNCH: 0.5, SYNC: 0.0, COPY: 0.0, "data": 0.0})
    assert short.gpu and short.gpu.trace
    trace = replace(short.gpu.trace, kernel_seconds=8e-6)
    return replace(short, gpu=replace(short.gpu, trace=trace, busy_share=0.5))


def with_gain(profile: Profile, gain: float, *names: str) -> Profile:
    """`profile` with the ceilings `names` at `gain` times its speed."""
    others = tuple(each for each in profile.ceilings if each.name not in names)
    rate = gain * profile.samples_per_second
    given = (Ceiling(name=name, samples_per_second=rate, max_gain=gain) for name in names)
    return replace(profile, ceilings=(*others, *given))


def filled(profile: Profile, share: float) -> Profile:
    """`profile` with its memory filled to `share` at the peak."""
    peak = int(share * profile.memory.capacity_bytes)
    return replace(profile, memory=replace(profile.memory, peak_bytes=peak))


CHANGES: dict[str, tuple[Callable[[Profile], Profile], Bottleneck, str]] = {
    "it waits for data": (
        lambda each: with_gain(taking(each, "data", 0.5), 2.0, "host", "compute"),
        Bottleneck.DATA,
        "critical",
    ),
    "it waits for copies": (
        lambda each: with_gain(taking(with_copies(each, 0.0), "copy", 0.15), 1.2, "compute"),
        Bottleneck.COPY,
        "warning",
    ),
    "a wait that costs nothing": (
        lambda each: with_gain(taking(each, "data", 0.5), 1.0, "host", "compute"),
        Bottleneck.DATA,
        "info",
    ),
    "its own Python runs": (
        lambda each: on_device(taking(each, "other", 0.3), idle={OTHER: 0.3}),
        Bottleneck.HOST,
        "critical",
    ),
    "the optimizer takes long": (
        lambda each: taking(each, "optimizer", 0.3),
        Bottleneck.OPTIMIZER,
        "warning",
    ),
    "it reads numbers back, and the device runs dry": (
        lambda each: on_device(each, idle={SYNC: 0.3}),
        Bottleneck.SYNC,
        "critical",
    ),
    "its kernels are short": (with_short_kernels, Bottleneck.OVERHEAD, "warning"),
    "copies are not hidden": (
        lambda each: with_gain(with_copies(taking(each, "copy", 0.0), 0.15), 1.2, "compute"),
        Bottleneck.COPY,
        "warning",
    ),
    "the allocator had to ask again": (
        lambda each: on_device(filled(each, 0.5), idle={}, allocator_retries=2),
        Bottleneck.MEMORY,
        "warning",
    ),
    "memory is full": (lambda each: filled(each, 0.98), Bottleneck.MEMORY, "critical"),
}
every_change = pytest.mark.parametrize(
    ("change", "bottleneck", "severity"), CHANGES.values(), ids=CHANGES
)


@every_profile
@every_change
def test_a_change_of_what_was_measured_changes_the_diagnosis(
    profile: Profile,
    change: Callable[[Profile], Profile],
    bottleneck: Bottleneck,
    severity: str,
) -> None:
    assert found(change(profile))[bottleneck].severity == severity


@every_profile
@pytest.mark.parametrize("phase", ["data", "copy", "other", "optimizer"])
def test_what_takes_no_time_is_not_found(profile: Profile, phase: str) -> None:
    bottleneck = {"other": Bottleneck.HOST}.get(phase) or Bottleneck(phase)
    without = on_device(taking(profile, phase, 0.0), idle={COPY: 0.0}, exposed_copy_share=0.0)
    assert bottleneck not in found(without)


@every_profile
def test_a_number_read_back_at_no_cost_is_not_found(profile: Profile) -> None:
    free = on_device(profile, idle={SYNC: 0.0})
    assert free.gpu and free.gpu.trace
    often = replace(free.gpu, trace=replace(free.gpu.trace, syncs_per_step=5.0))
    assert Bottleneck.SYNC not in found(replace(free, gpu=often))


@every_profile
def test_memory_with_room_is_not_found(profile: Profile) -> None:
    roomy = filled(profile, 0.5)
    calm = on_device(roomy, idle={}, allocator_retries=0)
    peak = calm.memory.peak_bytes
    memory = replace(calm.memory, reserved_bytes=peak, allocated_bytes=peak)
    assert Bottleneck.MEMORY not in found(replace(calm, memory=memory))


@every_profile
def test_memory_that_was_not_measured_is_not_found(profile: Profile) -> None:
    unknown = replace(profile, memory=replace(profile.memory, peak_bytes=None))
    assert Bottleneck.MEMORY not in found(on_device(unknown, idle={}, allocator_retries=None))


@pytest.mark.parametrize("path", PATHS, ids=lambda each: each.stem)
def test_what_is_kept_as_a_recording_is_one(path: Path) -> None:
    assert read(path).name == path.stem


@every_recording
def test_a_recorded_run_is_diagnosed_as_it_was(recording: Recording) -> None:
    """In all but the words beside a finding's figures, and what computing in no time would gain,
    which is told no more.
    """
    recorded = recording.result
    told = (
        replace(recorded, diagnosis=tuple(map(_bare, found)))
        for found in (recorded.diagnosis, diagnose(recorded.profile))
    )
    assert are_alike(*map(to_document, told))


def _bare(finding: Finding) -> Finding:
    computes = finding.bottleneck is Bottleneck.COMPUTE
    return replace(finding, evidence="", max_gain=None if computes else finding.max_gain)


@every_recording
def test_a_recorded_run_is_diagnosed_right(recording: Recording) -> None:
    diagnosis = to_document(recording.result)["diagnosis"]
    assert recording.expected.missed(diagnosis) == []


@every_recording
def test_a_recorded_run_survives_its_document(recording: Recording) -> None:
    assert from_document(to_document(recording.result)) == recording.result


def recorded(**changes: Any) -> dict[str, Any]:
    """A document as the bench would write it, of a stand-in."""
    profile = stand_in()
    result = builders.profile_result(profile=profile, diagnosis=diagnose(profile))
    measured = {
        "fault": "healthy",
        "expected": {"first": ["compute"], "absent": ["data", "copy"]},
        "missed": [],
        "result": to_document(result),
    }
    given = {"name": "planted-healthy", "machine": {"device": "cuda"}, "measured": measured}
    return given | changes


def test_a_document_of_the_bench_is_a_recording() -> None:
    recording = Recording.of(recorded())
    assert recording.expected.missed(to_document(recording.result)["diagnosis"]) == []
    said = replace(recording.result, diagnosis=diagnose(recording.result.profile))
    assert are_alike(to_document(said), to_document(recording.result))


@pytest.mark.parametrize(
    "changes", [{"rehearsal": True}, {"failed": "no"}, {"machine": {"device": "cpu"}}]
)
def test_what_no_gpu_gave_is_no_recording(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="planted-healthy"):
        Recording.of(recorded(**changes))


def test_one_that_failed_keeps_the_others_from_no_test(tmp_path: Path) -> None:
    given = {"sound": recorded(), "failed": recorded(failed="no"), "old": recorded()}
    given["old"]["measured"]["result"]["schema"] = 0
    for name, document in given.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert len(recordings(sorted(tmp_path.iterdir()))) == 1
    with pytest.raises(ValueError, match="failed"):
        read(tmp_path / "failed.json")
