"""Is a difference claimed where there is none, and found where there is one? Live programs, judged
as `search` judges them.

    python -m tests.bench.honesty [--comparisons 20] [--out reports/bench/honesty.json]

Two contestants are programs that differ by a planted amount of work: none (A/A), 10 %, 20 %; and
none while a neighbour burns a core half of the time. Every turn is kept. What the plan of turns
promises in theory is in `tests.bench.simulation`.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from autotune.machine import Machine, detect
from autotune.measurement.statistics import LOOKS, TURNS_PER_PROCESS
from autotune.measurement.turns import take_turns
from autotune.measurement.workbench import Workbench
from autotune.verdict import BASELINE, TUNED, Verdict, decide, is_decided
from autotune.workload.target import load_target

WARM_SECONDS = 2.4  # what a budget of a minute gives
BURN_SECONDS = 0.05

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

UNITS = 100
inputs = torch.randn(4096, 64)
loader = DataLoader(TensorDataset(inputs, inputs), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(100000):
    for x, y in loader:
        for unit in range(UNITS):
            torch.sort(x[unit % 32])
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`units` of work a step, of which the faster contestant does `faster_units`."""

    name: str
    units: int = 300
    faster_units: int = 300
    neighbour: bool = False


def cases() -> Iterator[Case]:
    """Two identical programs, planted differences, and a neighbour that takes half a core."""
    yield Case(name="A/A")
    yield Case(name="10 % planted", units=330)
    yield Case(name="20 % planted", units=360)
    yield Case(name="A/A, half a core taken", neighbour=True)


def _burn() -> None:
    while True:
        ends = time.perf_counter() + BURN_SECONDS
        while time.perf_counter() < ends:
            pass
        time.sleep(BURN_SECONDS)


@contextmanager
def _neighbour() -> Iterator[None]:
    process = get_context("spawn").Process(target=_burn, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def compare(bench: Workbench, path: Path, case: Case, machine: Machine) -> Verdict:
    """One comparison, as the last stage of a search makes it."""
    slower, faster = (
        PROGRAM.replace("UNITS = 100", f"UNITS = {units}")
        for units in (case.units, case.faster_units)
    )
    turns = take_turns(
        {
            BASELINE: lambda: bench.start(sources={str(path): slower}),
            TUNED: lambda: bench.start(sources={str(path): faster}),
        },
        rounds=LOOKS[-1],
        turns_per_round=TURNS_PER_PROCESS,
        deadline=math.inf,
        warm_seconds=WARM_SECONDS,
        after_round=lambda taken: is_decided(taken, cores=machine.cores),
    )
    return decide(turns, {"threads": 1}, cores=machine.cores, unobserved=lambda _: ())


def run(case: Case, comparisons: int, machine: Machine) -> list[Verdict]:
    """`comparisons` of `case`, each from fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(PROGRAM)
        with (
            _neighbour() if case.neighbour else nullcontext(),
            Workbench(load_target(path)) as bench,
        ):
            return [compare(bench, path, case, machine) for _ in range(comparisons)]


def claim(verdict: Verdict) -> str:
    """What a user would be told: "faster", "slower", "nothing", or that nothing was measured."""
    if verdict.outcome == "failed" or verdict.speedup is None:
        return "not measured"
    if verdict.speedup.high < 1:
        return "slower"
    return "faster" if verdict.outcome == "faster" else "nothing"


def _document(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    return [
        {
            "claim": claim(verdict),
            "reason": verdict.reason,
            "speedup": verdict.speedup
            and [verdict.speedup.estimate, verdict.speedup.low, verdict.speedup.high],
            "rounds": verdict.rounds,
            "left_out": verdict.left_out,
            "turns": verdict.turns,
        }
        for verdict in verdicts
    ]


def main() -> None:
    """Print how often each claim was made, by case; `--out` keeps every turn."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--case", action="append", help="only this case; repeatable")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    machine = detect()
    facts: dict[str, object] = {
        "device": machine.device_name,
        "cores": machine.cores,
        "versions": dict(machine.versions),
    }
    for case in cases():
        if arguments.case and case.name not in arguments.case:
            continue
        began = time.monotonic()
        verdicts = run(case, arguments.comparisons, machine)
        claims = [claim(verdict) for verdict in verdicts]
        counts = {name: claims.count(name) for name in sorted(set(claims))}
        print(f"{case.name:24} {counts} in {time.monotonic() - began:.0f} s", flush=True)
        facts[case.name] = _document(verdicts)
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
