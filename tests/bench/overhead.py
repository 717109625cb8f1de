"""What watching costs a training step: the same loop with and without the hooks, by turns, in one
process.

    python -m tests.bench.overhead [--rounds 40] [--out reports/bench/overhead.json]

Each turn is a second or so, so that a slow moment of the machine meets both alike. Not every step
is looked at alike, so steps are taken in blocks that hold as many of each kind. What a turn gives
is the mean step of its median block, and of all of them; the cost is the median of the differences
between neighbouring turns, with the interval that their order statistics give. The first steps,
which are all looked at, are left out; what they cost is said by itself.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.machine import detect
from autotune.workload.conversation import Rehearsed, RunWindow
from autotune.workload.intercept import intercepted
from autotune.workload.pace import KEPT_LOSSES, LOOKED_AT
from autotune.workload.setup import Setup

WARM_STEPS = 20
SETTLED_STEPS = KEPT_LOSSES + WARM_STEPS
BLOCK = len(LOOKED_AT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A training loop of `depth` linear layers of `width`, on batches of `batch`."""

    width: int
    depth: int
    batch: int
    blocks: int


LOOPS = {
    "tiny": Loop(width=16, depth=2, batch=8, blocks=10),
    "small": Loop(width=64, depth=40, batch=16, blocks=3),
    "5 ms": Loop(width=512, depth=6, batch=32, blocks=3),
}


def step_seconds(loop: Loop, *, first: bool = False) -> list[float]:
    """The mean seconds of a step in each block of `loop`, built and warmed up afresh; of the
    `first` block that there is.
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
    seconds: list[float] = []
    warm = WARM_STEPS if first else SETTLED_STEPS
    for _ in range(warm + BLOCK * (1 if first else loop.blocks)):
        began = time.perf_counter()
        x, y = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return [fmean(seconds[at : at + BLOCK]) for at in range(warm, len(seconds), BLOCK)]


def _forever(loader: DataLoader[tuple[torch.Tensor, ...]]) -> Iterator[list[torch.Tensor]]:
    while True:
        yield from loader


def watched() -> AbstractContextManager[object]:
    settling = RunWindow(seconds=0.0, steps=SETTLED_STEPS)
    return intercepted(Setup(), Rehearsed(settling, RunWindow(seconds=math.inf)))


def cost(loop: Loop, rounds: int, *, first: bool = False) -> dict[str, object]:
    """Microseconds a step that the hooks cost, with the 95 % interval over rounds; in the `first`
    steps, or later.
    """
    contexts: tuple[Callable[[], AbstractContextManager[object]], ...] = (nullcontext, watched)
    medians: dict[str, list[float]] = {"plain": [], "watched": []}
    means: dict[str, list[float]] = {"plain": [], "watched": []}
    for number in range(rounds):
        turns = list(zip(medians, contexts, strict=True))
        for name, context in turns if number % 2 == 0 else turns[::-1]:
            with context():
                seconds = step_seconds(loop, first=first)
            medians[name].append(median(seconds))
            means[name].append(fmean(seconds))
    costs, of_means = _differences(medians), _differences(means)
    return {
        "plain_step_microseconds": 1e6 * median(medians["plain"]),
        "cost_microseconds": median(costs),
        "interval_microseconds": median_interval(costs),
        "cost_of_means_microseconds": median(of_means),
        "raw_median_block_step_seconds": medians,
        "raw_mean_step_seconds": means,
    }


def _differences(seconds: dict[str, list[float]]) -> list[float]:
    pairs = zip(seconds["plain"], seconds["watched"], strict=True)
    return [1e6 * (watched - plain) for plain, watched in pairs]


def median_interval(values: list[float]) -> list[float]:
    """The 95 % interval of their median, by the binomial distribution of its rank."""
    count = len(values)
    below, rank = 0.0, 0
    while below + math.comb(count, rank) / 2**count <= 0.025:
        below += math.comb(count, rank) / 2**count
        rank += 1
    ordered = sorted(values)
    low = max(0, rank - 1)
    return [ordered[low], ordered[count - 1 - low]]


def main() -> None:
    """Print what the hooks cost, by loop; `--out` keeps the raw times."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    machine = detect()
    costs = {name: cost(loop, arguments.rounds) for name, loop in LOOPS.items()}
    costs["tiny, first steps"] = cost(LOOPS["tiny"], arguments.rounds, first=True)
    for name, found in costs.items():
        low, high = found["interval_microseconds"]  # type: ignore[misc]
        print(
            f"{name:17} step of {found['plain_step_microseconds']:8.1f} us: hooks cost "
            f"{found['cost_microseconds']:6.1f} us (95 % interval {low:.1f} to {high:.1f}), "
            f"{found['cost_of_means_microseconds']:.1f} by the means"
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
