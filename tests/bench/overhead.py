"""What the hooks cost a training step: the same loop without them, with them as in trials and
turns, and as in the profile, which asks what a step's time is spent on; by turns, in one process.

    python -m tests.bench.overhead [--rounds 40] [--out reports/bench/overhead.json]

Each turn is a fraction of a second, so that a slow moment of the machine meets both alike. What a
turn gives is its median step, and its mean; the cost is the median of the differences between
neighbouring turns, with the interval that their order statistics give.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.machine import detect
from autotune.workload.conversation import RunWindow
from autotune.workload.intercept import intercepted
from autotune.workload.setup import Setup
from tests.workload.programs import Rehearsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A training loop of `depth` linear layers of `width`, on batches of `batch`: `steps` of it,
    after `warm` ones. (Of a run's first 200 steps each loss is read, of later ones one in eight.)
    Its dataset puts each sample through so many `transforms`, which are modules.
    """

    width: int
    depth: int
    batch: int
    steps: int
    warm: int = 20
    transforms: int = 0


THREADS = 1
LOOPS = {
    "tiny": Loop(width=16, depth=2, batch=8, steps=300, warm=200),
    "small": Loop(width=64, depth=40, batch=16, steps=60),
    "5 ms": Loop(width=512, depth=6, batch=32, steps=50),
    "transforms": Loop(width=32, depth=2, batch=64, steps=100, transforms=5),
}


class Shift(nn.Module):
    """A transform of one sample."""

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        """Adds one."""
        return sample + 1


class Transformed(TensorDataset):
    """Samples that go through `count` modules each."""

    def __init__(self, count: int, *tensors: torch.Tensor) -> None:
        super().__init__(*tensors)
        self._transforms = [Shift() for _ in range(count)]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        sample, *others = super().__getitem__(index)
        for transform in self._transforms:
            sample = transform(sample)
        return sample, *others


def step_seconds(loop: Loop) -> list[float]:
    """Seconds of each step of `loop`, built and warmed up afresh."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(loop.depth):
        layers += [nn.Linear(loop.width, loop.width), nn.ReLU()]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(loop.batch * 50, loop.width)
    tensors = (inputs, inputs)
    dataset = Transformed(loop.transforms, *tensors) if loop.transforms else TensorDataset(*tensors)
    loader = DataLoader(dataset, batch_size=loop.batch)
    batches = _forever(loader)
    seconds: list[float] = []
    for _ in range(loop.warm + loop.steps):
        began = time.perf_counter()
        x, y = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return seconds[loop.warm :]


def _forever(loader: DataLoader[tuple[torch.Tensor, ...]]) -> Iterator[list[torch.Tensor]]:
    while True:
        yield from loader


def watched(*windows: RunWindow, phases: bool) -> AbstractContextManager[object]:
    """The hooks, as in the profile or as in trials and turns; one window for all by default."""
    asked = windows or (RunWindow(seconds=math.inf),)
    return intercepted(Setup(), Rehearsed(*asked), phases=phases)


CONTEXTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "turns": lambda: watched(phases=False),
    "profile": lambda: watched(phases=True),
}


def cost(loop: Loop, rounds: int) -> dict[str, object]:
    """Microseconds a step that the hooks cost, with the 95 % interval over rounds."""
    taken = in_turns(CONTEXTS, rounds, lambda: step_seconds(loop))
    medians, means = (
        {name: [of(seconds) for seconds in each] for name, each in taken.items()}
        for of in (median, fmean)
    )
    return {
        "plain_step_microseconds": 1e6 * median(medians["plain"]),
        "raw_median_step_seconds": medians,
        "raw_mean_step_seconds": means,
        **{name: _cost(name, medians, means) for name in list(CONTEXTS)[1:]},
    }


def in_turns(
    contexts: Mapping[str, Callable[[], Any]], rounds: int, run: Callable[[], Any]
) -> dict[str, list[Any]]:
    """What `run` gives in each context, who begins a round moving on by one."""
    taken: dict[str, list[Any]] = {name: [] for name in contexts}
    names = list(contexts)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            with contexts[name]():
                taken[name].append(run())
    return taken


def _cost(
    name: str, medians: dict[str, list[float]], means: dict[str, list[float]]
) -> dict[str, object]:
    of_medians, of_means = (
        [
            1e6 * (with_hooks - plain)
            for plain, with_hooks in zip(of["plain"], of[name], strict=True)
        ]
        for of in (medians, means)
    )
    return {
        "cost_microseconds": median(of_medians),
        "interval_microseconds": median_interval(of_medians),
        "cost_of_means_microseconds": median(of_means),
    }


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
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    machine = detect()
    costs = {name: cost(loop, arguments.rounds) for name, loop in LOOPS.items()}
    for name, found in costs.items():
        print(f"{name:10} step of {found['plain_step_microseconds']:8.1f} us: hooks cost", end="")
        for when in list(CONTEXTS)[1:]:
            of: dict[str, Any] = found[when]  # type: ignore[assignment]
            middle, (low, high) = of["cost_microseconds"], of["interval_microseconds"]
            print(f"  in {when} {middle:6.1f} us ({low:.1f} to {high:.1f})", end="")
        print()
    if arguments.out:
        facts = {
            "device": machine.device_name,
            "cores": machine.cores,
            "versions": dict(machine.versions),
            "threads": THREADS,
            "loops": costs,
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
