"""A GPU's profile in words: what is known with its unit, what is not as unknown."""

from dataclasses import replace

from autotune.nvml import Activity
from autotune.outputs.device import device_rows
from autotune.outputs.document import from_document, to_document
from autotune.outputs.plain import build, plain
from autotune.outputs.report import render
from autotune.profiling.gpu import GpuProfile, SyncPlace
from autotune.profiling.telemetry import Telemetry
from autotune.profiling.trace import Copies, Trace
from autotune.workload.window import Allocator
from tests import builders

COPIES = Copies(
    direction="HtoD",
    memory="pageable",
    count=4,
    bytes=40_000_000,
    seconds=0.01,
    largest_bytes=10_000_000,
    bytes_per_second=4.0e9,
)
KNOWN = GpuProfile(
    busy_share=0.62,
    idle={"data": 0.06, "copy": 0.0, "sync": 0.001, "launch": 0.24, "other": 0.02},
    exposed_copy_share=0.06,
    precision="bf16",
    flops_per_sample=4.1e9,
    mfu=0.31,
    joules_per_sample=2.04,
    telemetry=Telemetry(
        seconds=1.0,
        readings=10,
        resident_share=0.97,
        memory_peak_bytes=1 << 33,
        power_watts=412.3,
        energy_joules=412.3,
        sm_clock_hertz=1.98e9,
        memory_clock_hertz=3.201e9,
        slowed={"power cap": 0.3},
        pcie_generation=4,
        pcie_width=16,
        pcie_limit=(5, 16),
        other_processes=0,
        activity=Activity(sm_share=0.81, occupancy=0.4, tensor_share=None, memory_share=0.12),
    ),
    trace=Trace(
        steps=4,
        seconds=0.4,
        busy_share=0.5,
        kernels=2000,
        kernel_seconds=1e-4,
        copies=(COPIES,),
        hidden_share=0.04,
        idle={"data": 0.1, "launch": 0.4},
        syncs_per_step=1.0,
    ),
    syncs=(SyncPlace(path="/a/train.py", line=45, per_step=1.0),),
    allocator=Allocator(retries=0, reserved_peak_bytes=1 << 34),
    allocator_retries=0,
)


def test_what_is_known_is_said_with_its_unit() -> None:
    assert device_rows(KNOWN) == {
        "Busy": "62 % of each step ran some kernel",
        "Idle for": "data 6 %, launches 24 %, its own order of work 2 %",
        "Copies": "to the device 9.54 MiB a step, pageable; "
        "kernels ran beside 4 % of those to the device",
        "Rate of copies": "to the device 4.0 GB/s, pageable; "
        "of 63.0 GB/s that the PCIe link could carry",
        "Of its peak": "31 % of what it could compute in bf16 (MFU)",
        "Utilisation by NVML": "97 %: the time in which some kernel was resident, however small",
        "Own counters": "multiprocessors 81 %, occupancy 40 %, memory bandwidth 12 %",
        "Power": "412 W, 2.04 J a sample",
        "Clocks": "multiprocessors 1,980 MHz, memory 3,201 MHz; kept down by power cap 30 %",
        "PCIe": "generation 4, width 16, of 5 and 16 that it could have",
        "Other processes": "0 processes",
    }


def test_what_it_is_idle_for_is_a_list_of_plain_words() -> None:
    idle = device_rows(replace(KNOWN, idle={"data": 0.03, "sync": 0.12, "launch": 0.05}))[
        "Idle for"
    ]
    assert idle == "data 3 %, waits of the host for it 12 %, launches 5 %"


def test_a_rate_whose_limit_is_not_known_is_said_without_one() -> None:
    silent = replace(KNOWN, telemetry=Telemetry(seconds=1.0, readings=10))
    rows = device_rows(silent)
    assert (
        rows["Rate of copies"]
        == "to the device 4.0 GB/s, pageable; what the link could carry is unknown"
    )


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    silent = GpuProfile(
        telemetry=Telemetry(seconds=1.0, readings=10),
        missing={"trace": "no CUPTI", "peak": "no published peak"},
    )
    rows = device_rows(silent)
    assert rows["Busy"] == "not measured: no CUPTI"
    assert rows["Of its peak"] == "unknown: no published peak"
    assert {rows[name].split(":")[0] for name in ("Power", "Clocks", "PCIe")} == {"unknown"}
    assert "0" not in "".join(rows.values())
    assert "no NVML" in device_rows(GpuProfile())["The driver"]


def test_a_gpu_s_profile_comes_back_from_plain_data() -> None:
    for gpu in (KNOWN, GpuProfile(), GpuProfile(telemetry=Telemetry(seconds=1.0, readings=2))):
        assert build(GpuProfile, plain(gpu), "gpu") == gpu


def test_the_report_shows_the_device_of_a_gpu_s_profile_only() -> None:
    result = builders.profile_result()
    assert "The device</h2>" not in render(result)
    page = render(replace(result, profile=replace(result.profile, gpu=KNOWN)))
    assert "<h2>The device</h2>" in page
    assert "multiprocessors 81" in page


def test_what_watching_costs_is_said_where_it_is_known() -> None:
    result = builders.profile_result()
    assert "Watching cost" in render(result)
    unknown = replace(result, profile=replace(result.profile, overhead_share=None))
    assert "Watching cost" not in render(unknown)
    document = to_document(unknown)
    assert document["profile"]["overhead"] is None
    assert from_document(document) == unknown
