"""The machine as this process may use it: device, memory, cores, versions."""

from dataclasses import dataclass


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
        compiler: path of a C++ compiler, which torch.compile needs on a CPU; "" without one.
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
