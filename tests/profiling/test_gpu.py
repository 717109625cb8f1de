"""What a GPU's profile says of the device: true shares, counted work, published peaks."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.profiling.build import build_profile, with_gpu
from autotune.profiling.gpu import GpuProfile, Looks, build_gpu
from autotune.profiling.peaks import peak_of, precision_of
from autotune.profiling.roofline import roofline
from autotune.profiling.telemetry import Telemetry
from autotune.profiling.trace import Trace
from autotune.workload.window import AS_IS, Allocator, Window
from tests import builders

GIB = 1 << 30
H200 = builders.machine(
    device="cuda",
    device_name="NVIDIA H200",
    capability=(9, 0),
    device_memory_bytes=140 * GIB,
)
# 10 steps of 100 ms, 32 samples each.
WINDOW = Window(mode=AS_IS, steps=10, samples=320, seconds=1.0, peak_bytes=20 * GIB)
TRACE = Trace(
    steps=8,
    seconds=1.6,  # twice as long as they take without the profiler
    busy_share=0.3,
    kernels=800,
    kernel_seconds=0.6e-3,
    exposed_copy_share=0.05,
    idle={"data": 0.13, "launch": 0.52, "sync": 0.0},
)


def seen(**changes: Any) -> Any:
    whole = builders.seen()
    (model,) = whole.models
    fields = {name: changes.pop(name) for name in tuple(changes) if hasattr(model, name)}
    return replace(whole, models=(replace(model, **{"device": "cuda"} | fields),), **changes)


def gpu(looks: Looks | None = None, **changes: Any) -> GpuProfile:
    given: dict[str, Any] = {
        "machine": H200,
        "seen": seen(autocast="bfloat16"),
        "looks": looks or Looks(trace=TRACE, flops_per_step=98.95e12),
        "telemetry": Telemetry(seconds=1.0, readings=10, power_watts=640.0),
        "windows": (WINDOW,),
    }
    return build_gpu(**given | changes)


def test_kernels_take_their_time_of_a_step_that_no_profiler_slows() -> None:
    found = gpu()
    assert found.busy_share == pytest.approx(0.6)
    assert found.exposed_copy_share == pytest.approx(0.1)
    assert found.idle == pytest.approx({"data": 0.06, "launch": 0.24, "sync": 0.0})


def test_what_waiting_for_data_takes_is_that_of_the_timed_steps_and_not_of_a_full_queue() -> None:
    starving = replace(WINDOW, phases={"data": 0.6})
    idle = {"data": 0.0, "launch": 0.06, "sync": 0.02}
    full = replace(TRACE, seconds=0.3, busy_share=0.8, exposed_copy_share=0.0, idle=idle)
    whole = profile(Looks(trace=full), windows={AS_IS: (starving,)})
    assert whole.gpu.busy_share == pytest.approx(0.3)
    assert whole.gpu.idle == pytest.approx({"data": 0.6, "launch": 0.075, "sync": 0.025})


def test_a_device_that_is_busy_beside_the_waiting_is_idle_for_no_longer_than_it_is() -> None:
    waiting = replace(WINDOW, phases={"data": 0.7})
    idle = profile(Looks(trace=TRACE), windows={AS_IS: (waiting,)}).gpu.idle
    assert idle == pytest.approx({"data": 0.3, "launch": 0.0, "sync": 0.0})


def test_counted_work_is_a_share_of_the_published_peak() -> None:
    found = gpu()
    assert found.precision == "bf16"
    assert found.flops_per_sample == pytest.approx(98.95e12 / 32)
    assert found.mfu == pytest.approx(1.0)
    assert found.joules_per_sample == pytest.approx(2.0)


def test_a_device_that_is_not_in_the_table_has_no_utilisation_of_its_peak() -> None:
    found = gpu(machine=replace(H200, device_name="NVIDIA H200 MIG 1g.18gb"))
    assert found.mfu is None
    assert "NVIDIA H200 MIG 1g.18gb in bf16" in found.missing["peak"]
    assert found.flops_per_sample is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"seen": seen(autocast="bfloat16", gpus=2)},
        {"looks": Looks(trace=replace(TRACE, gpus=2), flops_per_step=1e12)},
    ],
)
def test_several_gpus_are_not_held_against_the_time_and_the_peak_of_one(
    changes: dict[str, Any],
) -> None:
    found = gpu(**changes)
    assert (found.trace, found.busy_share, dict(found.idle)) == (None, None, {})
    assert (found.mfu, found.joules_per_sample) == (None, None)
    assert found.missing["trace"] == found.missing["flops"] == "the program computes on 2 GPUs"
    ceiling = roofline(seen(), found, H200, rate=1.0)
    assert (ceiling.max_gain, ceiling.reason) == (None, "the program computes on 2 GPUs")


def test_double_precision_is_not_held_against_the_peak_of_single() -> None:
    found = gpu(seen=seen(dtype="float64"))
    assert found.mfu is None
    assert "in fp64" in found.missing["peak"]


def test_what_was_not_looked_at_is_unknown() -> None:
    found = gpu(Looks(missing={"trace": "no kernel"}), telemetry=None)
    assert (found.busy_share, found.mfu, found.joules_per_sample) == (None, None, None)
    assert found.missing["trace"] == "no kernel"
    assert found.idle == {}


@pytest.mark.parametrize(
    ("name", "precision", "teraflops"),
    [
        ("NVIDIA H200", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "tf32", 378),
        ("NVIDIA A100-SXM4-80GB", "fp16", 312),
        ("NVIDIA A100 80GB PCIe", "fp32", 19.5),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla T4", "bf16", None),
        ("NVIDIA A10", "bf16", 125),
        ("NVIDIA A10G", "bf16", None),
        ("NVIDIA GeForce RTX 3090 Ti", "fp16", None),
    ],
)
def test_peaks_are_of_exactly_that_device(
    name: str, precision: str, teraflops: float | None
) -> None:
    peak = peak_of(name)
    found = peak.flops_per_second.get(precision) if peak else None
    assert found == (pytest.approx(teraflops * 1e12) if teraflops else None)


@pytest.mark.parametrize(
    ("changes", "precision"),
    [
        ({"autocast": "bfloat16"}, "bf16"),
        ({"autocast": "float16"}, "fp16"),
        ({"dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float64"}, "fp64"),
        ({"dtype": "float64", "autocast": "bfloat16"}, "bf16"),
        ({"convolutions": 0}, "fp32"),
        ({"convolutions": 0, "matmul_precision": "high"}, "tf32"),
        ({"convolutions": 3}, "tf32"),
        ({"convolutions": 0, "other_convolutions": 3}, "tf32"),
        ({"convolutions": 3, "cudnn_tf32": False}, "fp32"),
    ],
)
def test_precision_is_the_fastest_that_the_program_allows(
    changes: dict[str, Any], precision: str
) -> None:
    assert precision_of(seen(**changes), H200) == precision


@pytest.mark.parametrize(
    ("share", "changes", "precision"),
    [
        (0.01, {}, "fp32"),  # a transformer behind the convolution that makes its patches
        (0.99, {}, "tf32"),
        (0.01, {"matmul_precision": "high"}, "tf32"),
        (0.99, {"matmul_precision": "high", "cudnn_tf32": False}, "fp32"),
        (None, {}, "tf32"),
    ],
)
def test_utilisation_is_of_the_peak_of_what_does_most_of_the_operations(
    share: float | None, changes: dict[str, Any], precision: str
) -> None:
    looks = Looks(flops_per_step=1e12, convolution_share=share)
    found = gpu(looks, seen=seen(convolutions=1, **changes))
    assert (found.precision, found.convolution_share) == (precision, share)


def test_an_old_device_has_no_tf32() -> None:
    old = replace(H200, capability=(7, 5))
    assert precision_of(seen(matmul_precision="high"), old) == "fp32"


def test_no_ceiling_is_above_what_is_computed_or_moved() -> None:
    computing = roofline(seen(parameter_bytes=0), gpu(), H200, rate=320.0)
    assert computing.samples_per_second == pytest.approx(320.0)
    assert computing.max_gain == pytest.approx(1.0)
    moving = roofline(weights(1_600 * 10**9), gpu(), H200, rate=0.32)
    assert moving.samples_per_second == pytest.approx(32.0, rel=1e-4)
    unknown = roofline(seen(), gpu(Looks(missing={"flops": "compiled"})), H200, rate=1.0)
    assert (unknown.max_gain, unknown.reason) == (None, "compiled")


def weights(trained: int, **changes: Any) -> Any:
    """A model of so many bytes, all of which its optimizer has, but for what is frozen."""
    whole = seen(parameter_bytes=trained + changes.get("frozen_bytes", 0), **changes)
    return replace(whole, optimizer=replace(whole.optimizer, trained_bytes=trained))


TERA = 10**12


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({"trained": TERA}, 3 * TERA),
        ({"trained": 0, "frozen_bytes": TERA}, TERA),
        ({"trained": TERA, "frozen_bytes": 2 * TERA, "frozen_table_bytes": TERA}, 4 * TERA),
    ],
)
def test_weights_that_are_not_trained_are_read_once(changes: dict[str, Any], moved: int) -> None:
    found = roofline(weights(**changes), gpu(), H200, rate=1.0)
    # 32 samples a step, and 4.8 TB a second.
    assert found.samples_per_second == pytest.approx(32 * 4.8 * TERA / moved, rel=1e-4)


def test_weights_that_the_optimizer_has_not_are_not_written() -> None:
    whole = weights(TERA)
    head = replace(whole, optimizer=replace(whole.optimizer, trained_bytes=0))
    found = roofline(head, gpu(), H200, rate=1.0)
    assert found.samples_per_second == pytest.approx(32 * 4.8 / 2, rel=1e-4)


def test_no_roofline_is_below_what_was_measured_nor_of_rows_that_nobody_counted() -> None:
    faster = roofline(weights(TERA), gpu(), H200, rate=60.0)
    assert faster.samples_per_second is None and "faster" in faster.reason
    sparse = roofline(weights(TERA, sparse_gradients=True), gpu(), H200, rate=1.0)
    assert sparse.samples_per_second is None and "rows" in sparse.reason


def profile(looks: Looks | None, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "machine": H200,
        "seen": seen(parameter_bytes=GIB),
        "windows": {AS_IS: (WINDOW,)},
        "reasons": {},
        "interval": (300.0, 340.0),
        "startup_seconds": 1.0,
        "probes": {},
        "budget_seconds": 60.0,
        "ended_early": False,
    }
    whole = build_profile(**given | changes)
    return whole if looks is None else with_gpu(whole, looks, None)


def test_the_peak_of_memory_is_split_by_what_was_seen() -> None:
    states = [Allocator(retries=each, reserved_peak_bytes=24 * GIB) for each in (3, 5)]
    windows = {AS_IS: tuple(replace(WINDOW, allocator=state) for state in states)}
    whole = profile(Looks(activation_bytes=12 * GIB, gradient_bytes=GIB // 2), windows=windows)
    memory = whole.memory
    state = whole.seen.optimizer.state_bytes + sum(each.buffer_bytes for each in whole.seen.models)
    assert memory.activation_bytes == 12 * GIB
    assert memory.gradient_bytes == GIB // 2
    assert memory.workspace_bytes == 20 * GIB - 12 * GIB - GIB - GIB // 2 - state
    assert memory.reserved_bytes == 24 * GIB
    assert whole.gpu.allocator_retries == 2
    assert whole.ceiling("roofline") is not None


def test_what_was_not_looked_at_is_what_is_left_of_the_peak() -> None:
    memory = profile(Looks()).memory
    assert memory.workspace_bytes is None
    assert memory.activation_bytes is not None and memory.activation_bytes < 20 * GIB


def test_a_cpu_has_no_gpu_and_no_roofline() -> None:
    whole = profile(None, machine=builders.machine())
    assert whole.gpu is None
    assert whole.ceiling("roofline") is None
