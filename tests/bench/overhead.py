"""What watching costs a training step: the same loop with and without the hooks, by turns, in one
process, in processor seconds.

    python -m tests.bench.overhead [--rounds 15] [--out reports/bench/overhead.json]
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.machine import detect
from autotune.measurement.statistics import student_t
from autotune.workload.conversation import Rehearsed, RunWindow
from autotune.workload.intercept import intercepted
from autotune.workload.setup import Setup

WARM_STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A training loop of `depth` linear layers of `width`, on batches of `batch`."""

    width: int
    depth: int
    batch: int
    steps: int


LOOPS = {
    "tiny": Loop(width=16, depth=2, batch=8, steps=1500),
    "small": Loop(width=64, depth=40, batch=16, steps=300),
    "5 ms": Loop(width=512, depth=6, batch=128, steps=150),
}


def step_seconds(loop: Loop) -> float:
    """Processor seconds of one step of `loop`, built and warmed up afresh.

    With one thread on a quiet machine that is its wall; on any other it is not its neighbours'.
    """
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(loop.depth):
        layers += [nn.Linear(loop.width, loop.width), nn.ReLU()]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(loop.batch * 50, loop.width)
    loader = DataLoader(TensorDataset(inputs, inputs), batch_size=loop.batch)
    batches = _forever(loader)
    began = 0.0
    for number in range(WARM_STEPS + loop.steps):
        if number == WARM_STEPS:
            began = time.process_time()
        x, y = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return (time.process_time() - began) / loop.steps


def _forever(loader: DataLoader[tuple[torch.Tensor, ...]]) -> Iterator[list[torch.Tensor]]:
    while True:
        yield from loader


def _watched() -> AbstractContextManager[object]:
    return intercepted(Setup(), Rehearsed(RunWindow(seconds=math.inf)))


def cost(loop: Loop, rounds: int) -> dict[str, object]:
    """Microseconds a step that the hooks cost, with the 95 % interval over rounds."""
    contexts: tuple[Callable[[], AbstractContextManager[object]], ...] = (nullcontext, _watched)
    seconds: dict[str, list[float]] = {"plain": [], "watched": []}
    for number in range(rounds):
        turns = list(zip(seconds, contexts, strict=True))
        for name, context in turns if number % 2 == 0 else turns[::-1]:
            with context():
                seconds[name].append(step_seconds(loop))
    pairs = zip(seconds["plain"], seconds["watched"], strict=True)
    costs = [1e6 * (watched - plain) for plain, watched in pairs]
    reach = student_t(0.95, rounds - 1) * stdev(costs) / math.sqrt(rounds)
    return {
        "plain_step_microseconds": 1e6 * median(seconds["plain"]),
        "cost_microseconds": fmean(costs),
        "median_cost_microseconds": median(costs),
        "interval_microseconds": [fmean(costs) - reach, fmean(costs) + reach],
        "raw_step_seconds": seconds,
    }


def main() -> None:
    """Print what the hooks cost, by loop; `--out` keeps the raw times."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    machine = detect()
    costs = {name: cost(loop, arguments.rounds) for name, loop in LOOPS.items()}
    for name, found in costs.items():
        low, high = found["interval_microseconds"]  # type: ignore[misc]
        print(
            f"{name:8} step of {found['plain_step_microseconds']:8.1f} us: hooks cost "
            f"{found['cost_microseconds']:6.1f} us (95 % interval {low:.1f} to {high:.1f}), "
            f"median {found['median_cost_microseconds']:.1f}"
        )
    if arguments.out:
        facts = {
            "device": machine.device_name,
            "cores": machine.cores,
            "versions": dict(machine.versions),
            "threads": arguments.threads,
            "loops": costs,
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
