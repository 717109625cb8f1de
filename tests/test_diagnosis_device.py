"""What a device's time line says holds a program back, and what it does not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autotune.diagnosis import Bottleneck, Finding, diagnose
from autotune.profiling.gpu import GpuProfile, SyncPlace
from autotune.profiling.profile import Profile
from autotune.profiling.telemetry import Telemetry
from autotune.profiling.trace import Copies, Trace
from autotune.source.edits import Place, Places
from autotune.workload.found import BusyLine
from autotune.workload.window import Allocator
from tests import builders

GIB = 1 << 30
HEALTHY = {"data": 0.01, "copy": 0.01, "forward": 0.33, "backward": 0.58, "optimizer": 0.07}
CALM = {"data": 0.0, "copy": 0.0, "sync": 0.0, "launch": 0.02, "other": 0.03}
BATCH = Copies(
    direction="HtoD",
    memory="pinned",
    count=8,
    bytes=8 * 19_000_000,
    seconds=0.01,
    largest_bytes=19_000_000,
)
PLACES = (SyncPlace(path="/home/ada/train.py", line=45, per_step=1.0),)


def on_device(
    idle: Mapping[str, float] = CALM,
    *,
    trace: Mapping[str, Any] | None = None,
    gpu: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Profile:
    """A program that keeps its GPU busy, but for what is changed."""
    traced: dict[str, Any] = {
        "steps": 8,
        "seconds": 0.8,
        "busy_share": 0.95,
        "kernels": 4000,
        "kernel_seconds": 190e-6,
        "copies": (BATCH,),
        "hidden_share": 0.98,
        "syncs_per_step": 1.0,
        "idle": idle,
    }
    whole: dict[str, Any] = {
        "busy_share": 1 - sum(idle.values()),
        "idle": idle,
        "trace": Trace(**traced | dict(trace or {})),
        "syncs": PLACES,
    }
    memory = replace(builders.profile().memory, capacity_bytes=80 * GIB, peak_bytes=30 * GIB)
    given: dict[str, Any] = {
        "machine": builders.machine(device="cuda", device_name="NVIDIA H200", capability=(9, 0)),
        "phases": HEALTHY,
        "windows": (),
        "ceilings": (),
        "memory": memory,
        "gpu": GpuProfile(**whole | dict(gpu or {})),
    }
    return builders.profile(**given | changes)


def found(profile: Profile) -> dict[Bottleneck, Finding]:
    return {finding.bottleneck: finding for finding in diagnose(profile)}


def test_a_healthy_program_hears_that_it_computes() -> None:
    assert set(found(on_device())) == {Bottleneck.COMPUTE}


@pytest.mark.parametrize(
    ("parts", "capacity_gib", "told"),
    [
        (8, 80, "Trains 8 small batches a step: one of 512 would be"),
        (8, 40, "Trains 8 small batches a step: 2 of 256 would be"),
        (6, 40, "Trains 6 small batches a step: 2 of 192 would be"),
        (8, 15, ""),
        (1, 80, ""),
    ],
)
def test_small_batches_that_are_added_up_are_named_where_larger_ones_fit(
    parts: int, capacity_gib: int, told: str
) -> None:
    # 4 GiB are taken once, and 8 by the activations of 64 samples.
    memory = replace(
        builders.profile().memory,
        peak_bytes=12 * GIB,
        activation_bytes=8 * GIB,
        capacity_bytes=capacity_gib * GIB,
    )
    seen = builders.seen()
    assert seen.loader is not None and seen.models
    seen = replace(
        seen,
        micro_batches=parts,
        samples_per_step=64.0 * parts,
        loader=replace(seen.loader, batch_size=64),
        models=tuple(replace(model, batch_norms=0) for model in seen.models),
    )
    idle = {**CALM, "launch": 0.4}
    given = on_device(idle, memory=memory, seen=seen)
    findings = [each.headline for each in diagnose(given) if "small batches" in each.headline]
    assert findings == [each for each in findings if told and each.startswith(told)]
    assert len(findings) == bool(told)
    normed = tuple(replace(model, batch_norms=1) for model in seen.models)
    for other in (
        on_device(memory=memory, seen=seen),
        replace(given, seen=replace(seen, models=normed)),
        replace(given, seen=replace(seen, shapes=2)),
    ):
        assert not any("small batches" in each.headline for each in diagnose(other))


def test_waiting_for_the_device_is_named_with_its_lines_where_it_costs() -> None:
    finding = found(on_device({**CALM, "sync": 0.3}))[Bottleneck.SYNC]
    assert finding.severity == "critical"
    assert "30 % of each step" in finding.headline
    assert "1 times a step: train.py:45 (1 a step)" in finding.evidence
    assert finding.max_gain == pytest.approx(1 / 0.7)


def test_a_line_that_copies_a_batch_is_not_named_as_one_that_waits() -> None:
    copied = SyncPlace(path="/home/ada/train.py", line=40, per_step=2.0)
    seen = replace(
        builders.profile().seen,
        places=Places(batch_copies=(Place(path=copied.path, line=copied.line),)),
    )
    waits = on_device({**CALM, "sync": 0.3}, gpu={"syncs": (copied, *PLACES)}, seen=seen)
    assert "1 times a step: train.py:45 (1 a step)" in found(waits)[Bottleneck.SYNC].evidence


def test_of_two_reasons_to_wait_that_of_more_time_comes_first() -> None:
    idle = {**CALM, "launch": 0.13, "sync": 0.17}
    profile = on_device(idle, trace={"kernel_seconds": 6e-6})
    order = [each.bottleneck for each in diagnose(profile) if each.severity == "warning"]
    assert order == [Bottleneck.SYNC, Bottleneck.OVERHEAD]


def test_waiting_for_the_device_that_costs_nothing_is_no_finding() -> None:
    busy = on_device({**CALM, "sync": 0.01}, trace={"syncs_per_step": 12.0})
    assert Bottleneck.SYNC not in found(busy)


def test_short_kernels_that_are_launched_late_are_overhead() -> None:
    idle = {**CALM, "launch": 0.55}
    finding = found(on_device(idle, trace={"kernel_seconds": 6e-6}))[Bottleneck.OVERHEAD]
    assert "500 kernels a step, of 6 µs each" in finding.evidence
    assert finding.max_gain == pytest.approx(1 / 0.45)


@pytest.mark.parametrize(
    "profile",
    [
        on_device({**CALM, "launch": 0.55}),  # the kernels are long
        on_device({**CALM, "data": 0.5, "launch": 0.3}, trace={"kernel_seconds": 6e-6}),
        on_device({**CALM, "sync": 0.4}, trace={"kernel_seconds": 6e-6}),
        on_device({**CALM, "launch": 0.15}, trace={"kernel_seconds": 6e-6}),  # busy
    ],
)
def test_a_device_that_waits_for_something_else_is_not_launch_bound(profile: Profile) -> None:
    assert Bottleneck.OVERHEAD not in found(profile)


@pytest.mark.parametrize(("other", "late"), [(0.03, 0.55), (0.3, 0.28), (0.55, None)])
def test_while_the_program_runs_other_code_nothing_is_launched_late(
    other: float, late: float | None
) -> None:
    phases = {"data": 0.01, "forward": 0.42, "backward": 0.57 - other, "other": other}
    idle = {**CALM, "sync": 0.0, "launch": 0.55, "other": 0.03}
    finding = found(on_device(idle, trace={"kernel_seconds": 6e-6}, phases=phases)).get(
        Bottleneck.OVERHEAD
    )
    assert (finding is None) == (late is None)
    if finding and late:
        assert finding.max_gain == pytest.approx(1 / (1 - late))


OUTSIDE = {"data": 0.01, "copy": 0.01, "forward": 0.25, "backward": 0.38, "other": 0.35}


@pytest.mark.parametrize(("late", "told"), [(0.02, ""), (0.2, "23 %"), (0.5, "35 %")])
def test_kernels_between_the_phases_are_no_python(late: float, told: str) -> None:
    profile = on_device({**CALM, "launch": late}, phases=OUTSIDE)
    finding = found(profile).get(Bottleneck.HOST)
    assert (finding is not None) == bool(told)
    if finding:
        assert finding.headline.startswith(f"Runs other code of its own {told} of")


@pytest.mark.parametrize("other", [0.05, 0.35])
def test_without_a_trace_nothing_is_said_of_what_the_device_was_idle_for(other: float) -> None:
    phases = {"data": 0.01, "copy": 0.01, "forward": 0.35, "backward": 0.63 - other, "other": other}
    untraced = on_device(gpu={"trace": None, "busy_share": None, "idle": {}}, phases=phases)
    findings = diagnose(replace(untraced, step_seconds=0.0034))
    assert {each.severity for each in findings} == {"info"}
    assert findings[0].bottleneck is Bottleneck.COMPUTE
    assert Bottleneck.OVERHEAD not in {each.bottleneck for each in findings}
    told = [each.headline for each in findings if each.bottleneck is Bottleneck.HOST]
    assert len(told) == (other > 0.1)
    assert all("35 % of each step; without a trace it is not known" in each for each in told)


def looped(*lines: tuple[int, float], function: str = "train") -> BusyLine:
    share = sum(each for _, each in lines)
    path = "/home/ada/train.py"
    return BusyLine(
        phase="other", path=path, line=lines[0][0], function=function, share=share, lines=lines
    )


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((looped((45, 0.65), (50, 0.15)),), ", 15 % in train (train.py:50); "),
        ((looped((45, 0.8)), looped((12, 0.1), function="metrics")), ", 10 % in metrics ("),
        ((looped((45, 0.8)),), "Runs other code of its own 20 % of each step; "),
        ((looped((50, 0.8)),), ", 20 % in train (train.py:50); "),
    ],
)
def test_the_line_that_waits_for_the_device_is_not_what_other_code_is(
    lines: tuple[BusyLine, ...], told: str
) -> None:
    profile = on_device({**CALM, "launch": 0.17}, phases=OUTSIDE, lines=lines)
    assert told in found(profile)[Bottleneck.HOST].headline
    assert profile.gpu is not None
    unknown = replace(profile, gpu=replace(profile.gpu, syncs=(), missing={"syncs": "ended"}))
    assert "train.py" not in found(unknown)[Bottleneck.HOST].headline


def test_a_model_that_is_called_without_gradients_keeps_the_device_busy() -> None:
    window = builders.window(10.0, seconds=1.0, gradless_seconds=0.3)
    headline = found(on_device(phases=OUTSIDE, windows=(window,)))[Bottleneck.HOST].headline
    assert headline.startswith("Acts or evaluates without gradients 30 % of each step")


def test_pageable_copies_that_are_waited_for_are_named() -> None:
    pageable = replace(BATCH, memory="pageable")
    profile = on_device(
        {**CALM, "copy": 0.05},
        trace={"copies": (pageable,), "hidden_share": 0.0},
        gpu={"exposed_copy_share": 0.08},
    )
    finding = found(profile)[Bottleneck.COPY]
    assert finding.severity == "warning"
    assert finding.evidence == (
        "Each step copies 19.0 MB from pageable memory to the device, which makes the program "
        "wait; kernels run beside 0 % of it: it is not overlapped."
    )
    assert "13 % of each step" in finding.headline


def test_waits_for_copies_of_many_parts_are_named_without_a_large_one() -> None:
    parts = replace(BATCH, memory="pageable", largest_bytes=4000)
    profile = on_device({**CALM, "copy": 0.15}, trace={"copies": (parts,)})
    assert "15 % of each step" in found(profile)[Bottleneck.COPY].headline


def test_copies_that_kernels_hide_are_no_finding() -> None:
    pageable = replace(BATCH, memory="pageable")
    assert Bottleneck.COPY not in found(on_device(trace={"copies": (pageable,)}))


def test_a_link_below_its_limit_is_said_beside_the_copies() -> None:
    telemetry = Telemetry(
        seconds=1, readings=9, pcie_generation=4, pcie_width=8, pcie_limit=(5, 16)
    )
    slow = {"exposed_copy_share": 0.3, "telemetry": telemetry}
    finding = found(on_device(gpu=slow))[Bottleneck.COPY]
    assert finding.evidence.endswith("generation 4 and width 8 of 5 and 16.")
    good = replace(telemetry, pcie_generation=5, pcie_width=16)
    finding = found(on_device(gpu=slow | {"telemetry": good}))[Bottleneck.COPY]
    assert "PCIe" not in finding.evidence


@pytest.mark.parametrize(
    ("rate", "limit", "said"),
    [
        (6.3e9, (5, 16), "6.3 GB/s from pinned memory: 10 % of the 63.0 GB/s that"),
        (12.6e9, (5, 16), "12.6 GB/s from pinned memory: 20 % of the 63.0 GB/s that"),
        (12.6e9, (3, 16), "12.6 GB/s from pinned memory: 80 % of the 15.8 GB/s that"),
        (400e9, (5, 16), "400.0 GB/s from pinned memory."),  # not over PCIe
        (6.3e9, None, "6.3 GB/s from pinned memory."),
    ],
)
def test_the_rate_of_copies_is_said_beside_what_their_link_could_carry(
    rate: float, limit: tuple[int, int] | None, said: str
) -> None:
    copies = (replace(BATCH, bytes_per_second=rate),)
    telemetry = Telemetry(seconds=1, readings=9, pcie_limit=limit)
    gpu = {"exposed_copy_share": 0.3, "telemetry": telemetry}
    evidence = found(on_device(trace={"copies": copies}, gpu=gpu))[Bottleneck.COPY].evidence
    _, _, told = evidence.partition(" That goes at ")
    assert told == (said if said[-1] == "." else f"{said} the device's PCIe link could carry.")


def test_an_allocator_that_began_anew_while_it_was_timed_is_named() -> None:
    finding = found(on_device(gpu={"allocator_retries": 4}))[Bottleneck.MEMORY]
    assert finding.severity == "warning"
    assert "4 times" in finding.evidence
    assert Bottleneck.MEMORY not in found(on_device(gpu={"allocator_retries": 0}))


@pytest.mark.parametrize(("reserved", "named"), [(62, True), (50, False)])
def test_memory_that_is_held_and_not_used_is_named(reserved: int, named: bool) -> None:
    memory = replace(on_device().memory, reserved_bytes=reserved * GIB)
    assert (Bottleneck.MEMORY in found(on_device(memory=memory))) == named


@pytest.mark.parametrize(("free", "said"), [(9 * GIB, True), (None, False)])
def test_what_lies_free_between_blocks_in_use_is_said(free: int | None, said: bool) -> None:
    memory = replace(on_device().memory, reserved_bytes=62 * GIB)
    known = {"allocator": Allocator(inactive_split_bytes=free)}
    evidence = found(on_device(memory=memory, gpu=known))[Bottleneck.MEMORY].evidence
    assert ("9.0 GiB lay between blocks in use" in evidence) is said


@pytest.mark.parametrize(("mfu", "share"), [(0.21, "21 %"), (0.004, "less than 1 %")])
def test_how_far_below_its_peak_a_device_computes_is_said_where_it_is_known(
    mfu: float, share: str
) -> None:
    known = found(on_device(gpu={"mfu": mfu, "precision": "tf32"}))[Bottleneck.COMPUTE]
    assert f"It reaches {share} of the device's peak in tf32." in known.evidence
    assert "peak" not in found(on_device())[Bottleneck.COMPUTE].evidence
