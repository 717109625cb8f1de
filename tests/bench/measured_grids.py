"""Every setting of a few small training programs, each measured in a process of its own: grids for
`tests.bench.regret`, on the machine that this runs on.

    python -m tests.bench.measured_grids [--out reports/bench/grids] [PROGRAM...]

A row is a configuration: its knobs, samples over the wall time of a window that begins once what
the loader had prepared is used up, that of the whole process, shares of a step, and the processors
that the training process kept busy. All of them are measured three times, each time in another
order that is drawn by chance, and a row holds the figures of the middle one (`rates` are all three:
two processes of one configuration differ by some 7 %, and of many rows the fastest would be the
luckiest). Nothing else should run meanwhile. Where two threads of torch's were put on one
processor, which the system does now and then for as long as a process lives, the configuration is
measured in another one.
"""

import argparse
import csv
import itertools
import math
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.bench.measured_programs import Config, Measured, programs

WARM_SECONDS, SECONDS, LIMIT_SECONDS = 0.7, 1.5, 60.0
ROUNDS = 3
# Processors kept busy while it computes, for each of two threads: below it they share one.
STALLED, MOST_TRIES = 0.55, 3
FIGURES = ("samples_per_s", "wall_s", "f_data", "f_fwdbwd", "f_opt", "f_data_cpu", "cores_main")
FIGURES += ("cores_computing",)


def configurations(program: Measured) -> list[Config]:
    """All of them, the user's own first; what a loader without workers cannot have is left out."""
    own = {name: values[0] for name, values in program.knobs.items()}
    found = [
        dict(zip(program.knobs, values, strict=True))
        for values in itertools.product(*program.knobs.values())
    ]
    return [
        config
        for config in found
        if config["nw"] or config.get("pf", own.get("pf")) == own.get("pf")
    ]


def measured(name: str, config: Config) -> dict[str, float]:
    """One configuration, in a process that is forked from this one, which has computed nothing; no
    number of samples a second where its threads shared one processor three times.

    Raises:
        RuntimeError: it failed, or took longer than a minute.
    """
    for _ in range(MOST_TRIES):
        figures = _in_a_process(name, config)
        if config["nw"] or figures["cores_computing"] >= STALLED * config["thr"]:
            return figures
    return figures | {"samples_per_s": math.nan}


def _in_a_process(name: str, config: Config) -> dict[str, float]:
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    began = time.perf_counter()
    process = context.Process(target=_child, args=(name, config, theirs))
    process.start()
    assert process.pid is not None
    theirs.close()
    try:
        if not ours.poll(LIMIT_SECONDS):
            raise RuntimeError(f"{name} {config}: no answer")
        figures: dict[str, float] = ours.recv()
    except EOFError:
        raise RuntimeError(f"{name} {config}: failed") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # with its loader's workers
        process.kill()
        process.join()
    return figures | {"wall_s": time.perf_counter() - began}


def _child(name: str, config: Config, answer: Connection) -> None:
    os.setsid()
    warnings.simplefilter("ignore")  # more workers than processors are meant
    program = programs()[name]
    torch.set_num_threads(config["thr"])
    torch.manual_seed(0)
    model = program.model()
    if config.get("cl"):
        model.to(memory_format=torch.channels_last)
    kind = {"foreach": config["opt"] == "foreach"} | (
        {"fused": True} if config["opt"] == "fused" else {}
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **kind)
    batches = _endless(program, config)
    parts = program.batch // config.get("mb", program.batch)
    spent = dict.fromkeys(("data", "data_cpu", "compute", "opt", "computing_cpu"), 0.0)

    def step() -> None:
        at, cpu = time.perf_counter(), time.thread_time()
        batch = next(batches)
        spent["data_cpu"] += time.thread_time() - cpu
        at = _passed(spent, "data", at)
        cpu = time.process_time()
        optimizer.zero_grad()
        for chunks in zip(*(each.chunk(parts) for each in batch), strict=True):
            part = [_laid_out(chunk, config) for chunk in chunks]
            with torch.autocast("cpu", torch.bfloat16) if config.get("amp") else nullcontext():
                loss = program.loss(model, part)
            (loss / parts).backward()
        at = _passed(spent, "compute", at)
        optimizer.step()
        _passed(spent, "opt", at)
        spent["computing_cpu"] += time.process_time() - cpu

    began, steps = time.perf_counter(), 0
    drained = config["nw"] * config.get("pf", 2) + 5
    while steps < drained or time.perf_counter() - began < WARM_SECONDS:
        step()
        steps += 1
    spent.update(dict.fromkeys(spent, 0.0))
    began, processors, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        steps += 1
    seconds = time.perf_counter() - began
    answer.send(
        {
            "samples_per_s": steps * program.batch / seconds,
            "f_data": spent["data"] / seconds,
            "f_fwdbwd": spent["compute"] / seconds,
            "f_opt": spent["opt"] / seconds,
            "f_data_cpu": spent["data_cpu"] / seconds,
            "cores_main": (time.process_time() - processors) / seconds,
            "cores_computing": spent["computing_cpu"] / (spent["compute"] + spent["opt"]),
        }
    )


def _laid_out(tensor: torch.Tensor, config: Config) -> torch.Tensor:
    if not config.get("cl") or tensor.ndim != 4:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


def _passed(spent: dict[str, float], phase: str, since: float) -> float:
    now = time.perf_counter()
    spent[phase] += now - since
    return now


def _endless(program: Measured, config: Config) -> Iterator[Any]:
    workers = config["nw"]
    ahead = {"prefetch_factor": config.get("pf", 2), "persistent_workers": True} if workers else {}
    loader: DataLoader[Any] = DataLoader(
        program.data(config),
        batch_size=program.batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        collate_fn=program.collate,
        **ahead,
    )
    while True:
        yield from loader


def main() -> int:
    """Measure the grids of PROGRAMs, all of them by default, and write a table of each."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("programs", nargs="*", choices=[*programs(), []])
    parser.add_argument("--out", type=Path, default=Path("reports/bench/grids"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.programs or programs():
        _write(arguments.out / f"grid_{name}.csv", name)
    return 0


def _write(path: Path, name: str) -> None:
    program = programs()[name]
    found, chance = configurations(program), random.Random(name)
    taken: list[list[dict[str, float]]] = [[] for _ in found]
    for each in range(ROUNDS):
        for number, place in enumerate(chance.sample(range(len(found)), len(found))):
            taken[place].append(measured(name, found[place]))
            said = f"{name}: {number + 1} of {len(found)}, round {each + 1} of {ROUNDS}"
            print(said, end="\r", file=sys.stderr, flush=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [*program.knobs, *FIGURES, "rates"])
        table.writeheader()
        for config, figures in zip(found, taken, strict=True):
            middle = sorted(figures, key=_rate)[len(figures) // 2]
            rates = ";".join(f"{each['samples_per_s']:.4g}" for each in figures)
            row = {name: f"{value:.4g}" for name, value in middle.items()}
            table.writerow({**config, **row, "rates": rates})


def _rate(row: Mapping[str, float]) -> float:
    rate = row["samples_per_s"]
    return 0.0 if math.isnan(rate) else rate


if __name__ == "__main__":
    sys.exit(main())
