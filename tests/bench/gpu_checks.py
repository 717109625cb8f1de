"""What watching costs on a GPU, and whether a model learns the same in shorter number formats."""

import json
import math
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import lru_cache, partial
from statistics import median
from typing import Any

from tests.bench.gpu_unit import AS_IT_IS, PROGRAMS, ROOT, Setting, Unit, apart

# Depths of a stack of linear layers, each as wide as its batch is long: one that keeps a large GPU
# busy for some milliseconds a step, and one whose kernels are too small to.
LOOPS = {"busy": (2048, 6), "launching": (64, 40)}
# Of a run's first 200 steps each loss is read: what a step costs is timed after them. Windows are
# closed before that and after it, as in a profile, whose seconds are without that of closing them;
# what a step costs with two of them closed meanwhile is told beside it.
WARM_STEPS, STEPS, STEPS_OF_A_WINDOW = 220, 100, 50
# What is compared with the first, which on a GPU convolves in tf32: torch's default.
FORMATS = (AS_IT_IS, "tf32", "bf16", "fp16")


def overhead(setting: Setting) -> dict[str, Any]:
    """Seconds of a step with and without the hooks, by turns, and what they cost."""
    from autotune.workload.conversation import RunWindow
    from tests.bench.overhead import in_turns, median_interval, watched

    loops: dict[str, Any] = {}
    for name, (width, depth) in LOOPS.items():
        size = (16, 2) if setting.rehearse else (width, depth)
        rounds, steps = (2, 5) if setting.rehearse else (7, STEPS)
        # Over well before what is timed: a step may lead it in, and losses are read then.
        before = RunWindow(seconds=0.0, steps=WARM_STEPS - 10)
        around = before, RunWindow(seconds=math.inf)
        within = [RunWindow(seconds=0.0, steps=STEPS_OF_A_WINDOW)] * 10
        contexts: dict[str, Any] = {
            "plain": nullcontext,
            "profile": partial(watched, *around, phases=True),
            "turns": partial(watched, *around, phases=False),
            "closing": partial(watched, *within, phases=True),
        }
        seconds = in_turns(contexts, rounds, partial(_step_seconds, *size, steps))
        loops[name] = {"raw_step_seconds": seconds}
        for kind in list(contexts)[1:]:
            pairs = zip(seconds["plain"], seconds[kind], strict=True)
            shares = [after / before - 1 for before, after in pairs]
            loops[name][kind] = {"cost_share": median(shares), "interval": median_interval(shares)}
    return {"loops": loops}


def _step_seconds(width: int, depth: int, steps: int) -> float:
    """Seconds of a step: a drained stretch of `steps`, over their number."""
    import torch
    from torch.utils.data import DataLoader

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width, device=device) for _ in range(depth)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(
        _rows(width), batch_size=None, sampler=_Stretches(width, 4, steps + WARM_STEPS)
    )
    began = 0.0
    for number, (batch,) in enumerate(loader):
        if number == WARM_STEPS:
            _drain(device)
            began = time.perf_counter()
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        optimizer.step()
    _drain(device)
    return (time.perf_counter() - began) / steps


@lru_cache
def _rows(width: int) -> Any:
    """Pinned once: copied as they are, they would take a good part of a step, and hide the rest."""
    import torch
    from torch.utils.data import TensorDataset

    rows = torch.randn(4 * width, width)
    return TensorDataset(rows.pin_memory() if torch.cuda.is_available() else rows)


class _Stretches:
    """A sampler of whole batches: slices of rows that lie one behind the other."""

    def __init__(self, length: int, count: int, steps: int) -> None:
        self._slices = [slice(length * each, length * (each + 1)) for each in range(count)]
        self._steps = steps

    def __iter__(self) -> Any:
        return (self._slices[step % len(self._slices)] for step in range(self._steps))

    def __len__(self) -> int:
        return self._steps


def _drain(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def parity(setting: Setting) -> dict[str, Any]:
    """The accuracy on samples held out of a model that was trained in each number format."""
    import torch

    seeds, given = (2, ["--samples", "256", "--epochs", "1"]) if setting.rehearse else (5, [])
    on_gpu = torch.cuda.is_available()
    formats = FORMATS if on_gpu else (AS_IT_IS, "bf16")
    accuracy = {each: _accuracies(each, seeds, given) for each in formats}
    return {"accuracy": accuracy, "seeds": seeds}


def _accuracies(precision: str, seeds: int, given: list[str]) -> list[float]:
    """In a process of its own, since switches of the process stay thrown."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.gpu_checks", precision, str(seeds), *given],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    accuracies: list[float] = json.loads(ran.stdout.splitlines()[-1])
    return accuracies


def train(precision: str, seeds: int, given: list[str]) -> list[float]:
    """The program `learns.py`, as it is, with the knob `precision` injected at torch's seams."""
    import contextlib
    import io

    from autotune.knobs import setup_for
    from autotune.workload.conversation import RunWindow
    from autotune.workload.intercept import intercepted
    from autotune.workload.program.script import Program, run_script
    from tests.workload.programs import Rehearsed

    path, accuracies = str(PROGRAMS / "learns.py"), []
    for seed in range(seeds):
        printed = io.StringIO()
        program = Program(path=path, arguments=("--seed", str(seed), *given))
        config = {} if precision == AS_IT_IS else {"precision": precision}
        line = Rehearsed(RunWindow(seconds=math.inf))
        with contextlib.redirect_stdout(printed), intercepted(setup_for(config), line):
            run_script(program)
        accuracies.append(float(printed.getvalue().split()[1]))
    return accuracies


UNITS = (
    Unit(part="parity", name="parity", seconds=90, measure=parity),
    # 17,920 steps, of about 5 ms each.
    Unit(part="overhead", name="overhead", seconds=140, measure=partial(apart, overhead)),
)

if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
