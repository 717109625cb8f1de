"""A training loop of which each part takes its seconds, and how fast it is.

The simulation is not the planner's model: processors are given out until all are taken, threads
have a serial part, and queues run dry the more the shorter they are.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Setting = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Seconds of a batch in each part of a training loop, with one thread and one reader."""

    batch: int
    read: float = 0.0  # waiting for disks
    decode: float = 0.0  # on a core
    send: float = 1e-3  # from a worker
    compute: float
    optimizer: float
    copy: float = 0.0
    other: float = 2e-4
    serial: float = 0.3  # share of the computing that threads do not speed up
    meeting: float = 0.0  # of each further thread with the others
    workers: int = 0
    prefetch: int = 2
    threads: int = 1
    cores: int = 2
    on_device: bool = False
    launching: float = 0.2  # share of the time on a device in which a core is kept busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The values of its knobs, and the loop that a setting of them makes."""

    name: str
    knobs: Mapping[str, tuple[object, ...]]
    loop: Callable[[Setting], Loop]
    extra: Mapping[str, object]


def shares_of(loop: Loop) -> dict[str, float]:
    """Samples per second of `loop`, and the shares of its step."""
    scale = loop.serial + (1 - loop.serial) / loop.threads
    compute = loop.compute * scale + loop.meeting * (loop.threads - 1)
    optimizer = loop.optimizer
    if loop.workers == 0:
        waits = loop.read + loop.decode
        step, sending = waits + compute + optimizer + loop.copy + loop.other, 0.0
    else:
        step, slow = _beside(loop, compute, optimizer)
        sending = 0.3 * loop.send
        compute, optimizer = compute * slow, optimizer * slow
        waits = max(sending, step - compute - optimizer - loop.copy - loop.other)
    working = loop.decode if loop.workers == 0 else sending
    return {
        "samples_per_s": loop.batch / step,
        "f_data": waits / step,
        "f_fwdbwd": compute / step,
        "f_opt": optimizer / step,
        "f_copy": loop.copy / step,
        "f_data_cpu": working / step,
    }


def _beside(loop: Loop, compute: float, optimizer: float) -> tuple[float, float]:
    """Seconds of a step, and by how much all that computes is slowed down for want of cores."""
    busy = loop.launching if loop.on_device else 1.0
    width = busy * (1 + 0.9 * (loop.threads - 1))
    sharpness = 3.0 + loop.prefetch
    slow, step = 1.0, math.inf
    for slow in (1.02**each for each in range(250)):
        behind = 1.0 if loop.on_device else slow
        training = (compute + optimizer) * behind + loop.copy + loop.other + 0.4 * loop.send
        loading = (loop.read + (loop.decode + loop.send) * slow) / loop.workers
        largest = max(training, loading)
        parts = (training / largest) ** sharpness + (loading / largest) ** sharpness
        step = largest * parts ** (1 / sharpness)
        used = (loop.decode + loop.send + (compute + optimizer) * width) / step
        if used <= 0.97 * loop.cores:
            break
    runnable = loop.workers * loop.decode / max(1e-9, loop.decode + loop.read) + width
    crowd = 1 + 0.03 * max(0.0, runnable - loop.cores)
    return step * crowd, slow if not loop.on_device else 1.0
