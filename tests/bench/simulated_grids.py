"""Grids of programs that nobody measured: their rates are simulated, to see strategies on others
than the few measured ones. They are never to be quoted as measurements.

    python -m tests.bench.simulated_grids FOLDER

The simulation is not the planner's model: processors are given out until all are taken, threads
have a serial part, queues run dry the more the shorter they are, and each rate is off by some 5 %.
"""

import argparse
import csv
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SCATTER = 0.05
STALLED, STALL = 0.015, 0.7  # share of rows, and the speed of those
FAILED = 0.02

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
    workers: int = 0
    prefetch: int = 2
    threads: int = 1
    cores: int = 2
    on_device: bool = False


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
    compute, optimizer = loop.compute * scale, loop.optimizer
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
    busy = 0.2 if loop.on_device else 1.0
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


def _decode(one: Setting) -> Loop:
    workers, cached = int(one["nw"]), one["cache"] == "ram"
    decode = {"pil": 0.060, "turbo": 0.034}[str(one["decode"])]
    return Loop(
        batch=32,
        read=0.002 if cached else 0.012,
        decode=decode * (0.45 if cached else 1.0),
        send=0.002 if one["shm"] else 0.005,
        compute=0.030,
        optimizer=0.002,
        workers=workers,
        prefetch=int(one["pf"] or 2),
        threads=int(one["thr"]),
        cores=4,
    )


def _transformer(one: Setting) -> Loop:
    compute = 0.180 * (1.45 if one["amp"] == "bf16" else 1.0)
    compute *= {"off": 1.0, "default": 0.82, "max-autotune": 0.80}[str(one["compile"])]
    compute *= 0.86 if one["attn"] == "flash" else 1.0
    compute *= {32: 1.0, 24: 0.99, 16: 0.93, 8: 1.04}[int(one["mb"])]
    return Loop(
        batch=32,
        decode=0.004,
        compute=compute,
        optimizer=0.022 if one["compile"] == "off" else 0.018,
        serial=0.12,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


def _optimizer(one: Setting) -> Loop:
    optimizer = {"loop": 0.016, "foreach": 0.011, "fused": 0.006}[str(one["optim"])]
    optimizer += 0.0 if one["zero_grad"] == "none" else 0.002
    optimizer += 0.004 if one["clip"] == "loop" else 0.001
    return Loop(
        batch=64,
        decode=0.004 if one["getitems"] == "False" else 0.0018,
        send=0.002,
        compute=0.007,
        optimizer=optimizer,
        serial=0.85,
        workers=int(one["workers"]),
        threads=int(one["threads"]),
    )


def _copy(one: Setting) -> Loop:
    compute = 0.050 * {"fp32": 1.0, "tf32": 0.66, "bf16": 0.47}[str(one["amp"])]
    if one["channels_last"]:
        compute *= 0.78 if one["amp"] == "bf16" else 1.04
    compute *= 0.85 if one["compile"] else 1.0
    copy = 0.016 * (0.45 if one["pin_memory"] else 1.0)
    copy *= 0.25 if one["pin_memory"] and one["non_blocking"] else 1.0
    return Loop(
        batch=128,
        read=0.010,
        decode=0.090,
        send=0.004,
        compute=compute,
        optimizer=0.004,
        copy=copy,
        serial=1.0,
        workers=int(one["num_workers"]),
        cores=8,
        on_device=True,
    )


def _threads(one: Setting) -> Loop:
    return Loop(
        batch=16,
        read=0.003,
        decode=0.050 * (0.93 if one["inplace"] else 1.0),
        send=0.0015,
        compute=0.060 * (0.76 if one["cl"] else 1.0),
        optimizer=0.001,
        serial=0.1,
        workers=int(one["nw"]),
        prefetch=int(one["pf"]),
        threads=int(one["thr"]),
        cores=4,
    )


def _decoys(one: Setting) -> Loop:
    return Loop(
        batch=32,
        decode=0.018,
        compute=0.026 * (0.98 if one["cudnn_benchmark"] else 1.0),
        optimizer={"forloop": 0.010, "foreach": 0.007, "fused": 0.004}[str(one["opt"])],
        serial=0.5,
        workers=int(one["nw"]),
        threads=int(one["thr"]),
    )


_SWITCH = (False, True)
PROGRAMS = (
    Program(
        name="simulated_decode",
        knobs={"nw": (0, 1, 2, 4, 8), "pf": (2, 4), "cache": ("off", "ram")}
        | {"decode": ("pil", "turbo"), "shm": (0, 1), "thr": (1, 2, 4)},
        loop=_decode,
        extra={"cores": 4},
    ),
    Program(
        name="simulated_transformer",
        knobs={"nw": (0, 1, 2), "mb": (32, 24, 16, 8), "thr": (1, 2), "amp": ("fp32", "bf16")}
        | {"compile": ("off", "default", "max-autotune"), "attn": ("math", "flash")},
        loop=_transformer,
        extra={},
    ),
    Program(
        name="simulated_optimizer",
        knobs={"workers": (0, 1, 2), "threads": ("1.0", "2.0"), "zero_grad": ("none", "zero")}
        | {"optim": ("loop", "foreach", "fused"), "clip": ("loop", "foreach")}
        | {"getitems": ("False", "True")},
        loop=lambda one: _optimizer({**one, "threads": float(str(one["threads"]))}),
        extra={},
    ),
    Program(
        name="simulated_copy",
        knobs={"num_workers": (0, 2, 4, 8), "pin_memory": _SWITCH, "non_blocking": _SWITCH}
        | {"amp": ("fp32", "tf32", "bf16"), "channels_last": _SWITCH, "compile": _SWITCH},
        loop=_copy,
        extra={"cores": 8},
    ),
    Program(
        name="simulated_threads",
        knobs={"nw": (0, 1, 2, 3, 4), "thr": (1, 2, 3, 4), "pf": (2, 4), "cl": _SWITCH}
        | {"inplace": _SWITCH},
        loop=_threads,
        extra={},
    ),
    Program(
        name="simulated_decoys",
        knobs={"nw": (0, 1, 2), "thr": (1, 2), "opt": ("forloop", "foreach", "fused")}
        | {"cudnn_benchmark": _SWITCH, "persistent": _SWITCH, "set_to_none": _SWITCH}
        | {"gc_off": _SWITCH},
        loop=_decoys,
        extra={},
    ),
)


def rows_of(program: Program, seed: int = 0) -> Iterator[dict[str, object]]:
    """Every configuration of `program`, once."""
    chance = random.Random(f"{program.name} {seed}")
    for values in itertools.product(*program.knobs.values()):
        one = dict(zip(program.knobs, values, strict=True))
        if one.get("nw") == 0 and "pf" in one:
            if one["pf"] != program.knobs["pf"][0]:
                continue
            one["pf"] = ""
        loop = program.loop({**one, "pf": one.get("pf") or 2})
        facts: dict[str, object] = dict(shares_of(loop))
        rate = float(str(facts.pop("samples_per_s"))) * math.exp(chance.gauss(0.0, SCATTER))
        rate *= STALL if chance.random() < STALLED else 1.0
        copies = facts.pop("f_copy")
        facts |= {"f_copy": copies} if loop.on_device else {}
        failed = any(one.values()) and chance.random() < FAILED and one.get("nw") != 0
        compiles = str(one.get("compile", "off")) not in ("off", "False")
        yield {
            **one,
            "samples_per_s": "" if failed else round(rate, 2),
            "wall_s": round(1.6 + (20 if compiles else 0) + chance.random(), 3),
            **{name: round(float(str(share)), 4) for name, share in facts.items()},
            **program.extra,
        }


def write(folder: Path, programs: Iterable[Program] = PROGRAMS, seed: int = 0) -> list[Path]:
    """A table of each of `programs` in `folder`."""
    paths = []
    for program in programs:
        rows = list(rows_of(program, seed))
        random.Random(seed).shuffle(rows)
        paths.append(folder / f"{program.name}.csv")
        with paths[-1].open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write(arguments.folder, seed=arguments.seed)
