"""The machine as this process may use it: device, memory, cores, versions.

Read from the system alone: torch is not imported and the device not touched, so that a process may
still be forked afterwards.
"""

import importlib.metadata
import importlib.util
import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.errors import UsageError
from autotune.nvml import Gpu, describe_gpu

CPU, CUDA = "cpu", "cuda"
# Capability from which a GPU multiplies bfloat16 in hardware (CUDA C++ Programming Guide, compute
# capabilities), and the flags of processors that do (x86, x86 with tiles, Arm).
BF16_CAPABILITY = (8, 0)
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
_WITHOUT_BF16 = "bf16 is tried only where a short test finds it faster all the same"
# Docker gives a container 64 MiB, which eight workers fill with two batches of 32 small photos each
# (8 x 2 x 32 x 3 x 64 x 64 x 4 bytes = 25 MiB), or one worker with large ones.
SMALL_SHARED_MEMORY_BYTES = 1 << 30
GIB = 1 << 30
# Where compilers are looked for: by torch's inductor for C++, by Triton for C.
_COMPILERS = {CPU: ("CXX", ("g++", "clang++")), CUDA: ("CC", ("gcc", "clang"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a program on this machine has at its disposal, and on which versions it was measured.

    Attributes:
        device: "cpu" or "cuda".
        device_name: the processor's or the GPU's name.
        device_memory_bytes: memory of the device (of the machine, for "cpu").
        capability: CUDA compute capability as (major, minor); None on a CPU.
        cores: cores this process may use: affinity and the cgroup's quota, whichever is less.
        memory_bytes: main memory this process may use (the cgroup's limit counts).
        shared_memory_bytes: free space in /dev/shm, where loader workers put their batches.
        compiler: path of the compiler that torch.compile needs for the device: of C++ for a CPU,
            of C for a GPU; "" without one.
        versions: of python, torch, autotune, cuda, cudnn, driver, where there are any.
        system: operating system and kernel.
    """

    device: str
    device_name: str
    device_memory_bytes: int
    capability: tuple[int, int] | None
    cores: int
    memory_bytes: int
    shared_memory_bytes: int
    compiler: str
    versions: dict[str, str]
    system: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """Something that a machine can or cannot do; `note` says how well, or what would help."""

    name: str
    can: bool
    note: str


def make_gpu_nodes(unified: Path = Path("/dev/nvidia-uvm")) -> None:
    """Have the driver's own helper make the node that CUDA wants and that is not there between a
    boot and the first program that uses CUDA: a protected run may not, and would find no GPU.
    """
    helper = shutil.which("nvidia-modprobe")
    if helper and not unified.exists():
        subprocess.run([helper, "-u", "-c", "0"], check=False, capture_output=True)


def detect(device: str | None = None) -> Machine:
    """The machine, as this process may use it.

    Args:
        device: "cpu" or "cuda"; None or "auto" takes a GPU where there is one that torch can use.

    Raises:
        UsageError: the device is not one of these, or not there.
    """
    chosen, _, index = (device or "auto").partition(":")
    if index:
        raise UsageError(
            f"autotune measures on the first GPU that it is shown, and not on {device!r}.",
            f"Show it that one alone: CUDA_VISIBLE_DEVICES={index}, with --device {chosen}.",
        )
    if chosen not in {CPU, CUDA, "auto"}:
        raise UsageError(
            f"autotune cannot measure on the device {device!r}.",
            "Choose cpu or cuda, or leave --device out.",
        )
    gpu = None if chosen == CPU else _gpu()
    if chosen == CUDA and gpu is None:
        raise UsageError(f"There is no CUDA device: {_why_no_gpu()}.", "Leave --device out.")
    memory_bytes = memory_limit_bytes()
    return Machine(
        device=CUDA if gpu else CPU,
        device_name=gpu.name if gpu else processor_name(),
        device_memory_bytes=gpu.memory_bytes if gpu else memory_bytes,
        capability=gpu.capability if gpu else None,
        cores=usable_cores(),
        memory_bytes=memory_bytes,
        shared_memory_bytes=_free_bytes("/dev/shm"),  # noqa: S108  # not a file of ours
        compiler=_compiler(CUDA if gpu else CPU),
        versions=_versions(gpu),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def abilities(machine: Machine) -> tuple[Ability, ...]:
    """What `machine` can measure or tune, and what is missing for more."""
    cores, compiler = os.cpu_count() or machine.cores, machine.compiler
    forks, delays = hasattr(os, "fork"), Path("/proc/self/schedstat").exists()
    on_gpu, fast_bf16 = machine.device == CUDA, has_bf16_units(machine)
    variable, names = _COMPILERS[machine.device]
    roomy = machine.shared_memory_bytes >= SMALL_SHARED_MEMORY_BYTES
    shared = f"{machine.shared_memory_bytes / GIB:.1f} GiB of shared memory free"
    used = f"{machine.cores} of {cores}"
    rows = (
        ("Measure on a GPU", on_gpu, machine.device_name if on_gpu else _why_no_gpu()),
        ("Fork runs from a warm process", forks, "" if forks else "needs Linux"),
        ("Try torch.compile", bool(compiler), compiler or f"install {names[0]}, or set {variable}"),
        ("Compute bfloat16 in hardware", fast_bf16, "" if fast_bf16 else _WITHOUT_BF16),
        (
            "Feed many loader workers",
            roomy,
            shared + ("" if roomy else "; --shm-size=2g in Docker"),
        ),
        ("Use every processor", machine.cores >= cores, f"{used} by affinity and container limit"),
        (
            "See when a run waits for a processor",
            delays,
            "" if delays else "no /proc/self/schedstat",
        ),
    )
    return tuple(Ability(name=name, can=can, note=note) for name, can, note in rows)


def has_bf16_units(machine: Machine) -> bool:
    """Whether the device multiplies bfloat16 in hardware."""
    if machine.capability is not None:
        return machine.capability >= BF16_CAPABILITY
    return bool(BF16_FLAGS & set(_processor_field("flags", "Features").split()))


def usable_cores(root: Path = Path("/")) -> int:
    """Processors this process may use: its affinity, or less by a cgroup's quota, rounded up."""
    allowed = len(os.sched_getaffinity(0))
    for group in _control_groups("cpu", root):
        quota, period = _quota(group)
        if quota > 0 and period > 0:
            allowed = min(allowed, math.ceil(quota / period))
    return max(1, allowed)


def memory_limit_bytes(root: Path = Path("/")) -> int:
    """Main memory this process may use: the machine's, or less by a cgroup's limit."""
    total = re.search(r"MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"))
    limits = [int(total[1]) * 1024] if total else []
    for group in _control_groups("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _text(group / name).strip()
            limits += [int(limit)] if limit.isdigit() else []
    return min(limits, default=0)


def processor_name() -> str:
    """What the processor calls itself."""
    return _processor_field("model name", "Model") or platform.machine()


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Directories of the cgroups that bind this process, innermost first, of both versions.

    A container often sees its own group as the root, so the root is always among them.
    """
    mounts = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        tops = [mounts / controllers, mounts / controller] if controllers else [mounts]
        for top in dict.fromkeys(tops):
            inner = top / path.lstrip("/")
            yield from (group for group in (inner, *inner.parents) if group.is_relative_to(top))


def with_gpu(machine: Machine, uuid: str, told: Gpu | None = None) -> Machine:
    """`machine` with the GPU of this id, as CUDA gives it: of several unlike ones CUDA need not
    take the one that the driver counts first, nor a program the one that CUDA does. Where the
    driver cannot be asked, it is what CUDA has `told` of it.
    """
    gpu = (describe_gpu(uuid) if uuid else None) or told
    if gpu is None:
        return machine
    return replace(
        machine,
        device=CUDA,
        compiler=_compiler(CUDA),
        versions=_versions(gpu),
        device_name=gpu.name,
        device_memory_bytes=gpu.memory_bytes,
        capability=gpu.capability,
    )


def _quota(group: Path) -> tuple[float, float]:
    """Processor time and the period in which it may be used; the first is -1 without a limit."""
    words = _text(group / "cpu.max").split() or [
        _text(group / "cpu.cfs_quota_us").strip() or "-1",
        _text(group / "cpu.cfs_period_us").strip() or "0",
    ]
    return (-1.0 if words[0] == "max" else float(words[0])), float(words[1])


def _gpu() -> Gpu | None:
    """The GPU that torch would use first; None without one, or if torch is built without CUDA."""
    return describe_gpu() if _torch_cuda_version() else None


def _why_no_gpu() -> str:
    if not _torch_cuda_version():
        return "the installed torch is built without CUDA"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in {"", "-1"}:
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    return "NVML, by which the driver is asked, shows none"


def _versions(gpu: Gpu | None) -> dict[str, str]:
    found = {
        "python": platform.python_version(),
        "torch": _installed("torch"),
        "autotune": _installed("torch-autotune"),
    }
    if gpu:
        cuda = _torch_cuda_version()
        found["cuda"] = cuda
        found["cudnn"] = _installed(f"nvidia-cudnn-cu{cuda.partition('.')[0]}")
        found["driver"] = gpu.driver
    return {name: version for name, version in found.items() if version}


def _torch_cuda_version() -> str:
    """The CUDA version that torch is built for, "" without; torch is not imported for it."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return ""
    text = _text(Path(torch.origin).parent / "version.py")
    found = re.search(r"^cuda\b[^=]*= '([\d.]+)'", text, re.MULTILINE)
    return found[1] if found else ""


def _installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _compiler(device: str) -> str:
    variable, names = _COMPILERS[device]
    asked = (os.environ.get(variable, ""), *names)
    return next((path for name in asked if name and (path := shutil.which(name))), "")


def _processor_field(*names: str) -> str:
    found = re.search(
        rf"^(?:{'|'.join(names)})\s*: (.+)$", _text(Path("/proc/cpuinfo")), re.MULTILINE
    )
    return found[1].strip() if found else ""


def _free_bytes(directory: str) -> int:
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
