"""What a process may use of its machine, as the system says it."""

import os
import sys
import types
from pathlib import Path

import pytest

from autotune import machine
from autotune.errors import UsageError
from autotune.machine import abilities, detect, memory_limit_bytes, usable_cores
from tests import builders


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))


def system(root: Path, files: dict[str, str]) -> Path:
    """A made-up root directory with these files in it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine_is_found_without_importing_torch() -> None:
    found = detect("cpu")
    assert found.device == "cpu"
    assert found.capability is None
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.memory_bytes == found.device_memory_bytes > 0
    assert found.device_name
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found.versions["torch"]


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "250000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/gone\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/docker/x\n2:memory:/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_cores_are_limited_by_the_container_s_quota(
    tmp_path: Path, files: dict[str, str], cores: int
) -> None:
    assert usable_cores(system(tmp_path, files)) == cores


@pytest.mark.usefixtures("two_cores")
def test_cores_are_limited_by_affinity(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "800000 100000\n"}
    assert usable_cores(system(tmp_path, files)) == 2


@pytest.mark.parametrize(
    ("files", "kib"),
    [
        ({}, 4096),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 4096),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1024),
        (
            {
                "proc/self/cgroup": "8:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2097152\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            2048,
        ),
    ],
)
def test_memory_is_limited_by_the_container(
    tmp_path: Path, files: dict[str, str], kib: int
) -> None:
    root = system(tmp_path, {"proc/meminfo": "MemTotal:        4096 kB\n", **files})
    assert memory_limit_bytes(root) == kib * 1024


def test_a_device_that_is_not_there_is_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_torch_cuda_version", lambda: "")
    with pytest.raises(UsageError, match="built without CUDA"):
        detect("cuda")
    with pytest.raises(UsageError, match="'tpu'"):
        detect("tpu")
    assert detect().device == "cpu"


class FakeNvml(types.ModuleType):
    """A driver with two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__("pynvml")
        self.fails = fails
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if self.fails:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index > 1:
            raise self.NVMLError
        return index

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}1c9b74e"

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return (7, 5) if handle else (9, 0)

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return f"GPU {handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> types.SimpleNamespace:  # noqa: N802
        return types.SimpleNamespace(total=16 << 30)

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.1"


@pytest.mark.parametrize(
    ("visible", "name"),
    [
        (None, "GPU 0"),
        ("1", "GPU 1"),
        ("1,0", "GPU 1"),
        ("GPU-1", "GPU 1"),
        ("GPU-11c9b74e", "GPU 1"),
        ("GPU-7", ""),
        ("", ""),
        ("7", ""),
    ],
)
def test_the_first_visible_gpu_is_taken(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, name: str
) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(machine, "_torch_cuda_version", lambda: "12.8")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = detect("auto")
    assert found.device == ("cuda" if name else "cpu")
    assert not name or (found.device_name, found.versions["driver"]) == (name, "580.1")
    assert machine.has_bf16_units(found) == (name == "GPU 0") or not name
    assert nvml.open == 0


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(fails=True))
    monkeypatch.setattr(machine, "_torch_cuda_version", lambda: "12.8")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert detect().device == "cpu"
    with pytest.raises(UsageError, match="shows none"):
        detect("cuda")
    with pytest.raises(UsageError, match="first GPU") as refused:
        detect("cuda:1")
    assert "CUDA_VISIBLE_DEVICES=1" in refused.value.advice
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(UsageError, match="hides every GPU"):
        detect("cuda")


def test_what_a_machine_cannot_do_comes_with_advice() -> None:
    poor = builders.machine(cores=1, compiler="", shared_memory_bytes=64 << 20)
    lacking = {ability.name: ability.note for ability in abilities(poor) if not ability.can}
    assert "install g++" in lacking["Try torch.compile"]
    assert "--shm-size" in lacking["Feed many loader workers"]


def test_a_missing_shared_memory_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> os.statvfs_result:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "statvfs", missing)
    assert detect("cpu").shared_memory_bytes == 0


@pytest.mark.parametrize("there", [False, True])
def test_the_drivers_helper_makes_the_node_that_is_missing(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper, node = tmp_path / "nvidia-modprobe", tmp_path / "nvidia-uvm"
    helper.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if there:
        node.touch()
    machine.make_gpu_nodes(node)
    assert (tmp_path / "asked").exists() != there


@pytest.mark.parametrize(
    ("gpu", "there", "found"),
    [
        (True, "gcc", "/usr/bin/gcc"),
        (True, "g++", ""),
        (False, "g++", "/usr/bin/g++"),
        (False, "gcc", ""),
    ],
)
def test_the_compiler_is_the_one_that_torch_needs_for_the_device(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, there: str, found: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(fails=not gpu))
    monkeypatch.setattr(machine, "_torch_cuda_version", lambda: "12.8")
    monkeypatch.setattr(
        machine.shutil, "which", lambda name: f"/usr/bin/{name}" if name == there else None
    )
    for name in ("CC", "CXX", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    known = detect()
    assert known.compiler == found
    able = {each.name: each for each in abilities(known)}["Try torch.compile"]
    assert able.can == bool(found)
    assert found or able.note == ("install gcc, or set CC" if gpu else "install g++, or set CXX")
