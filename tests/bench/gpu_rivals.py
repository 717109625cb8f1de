"""autotune against pytorch-autotune 2.0.0 on its three workloads: whole fresh processes with their
real loaders, by one stopwatch.

pytorch-autotune is used as its README says: its `autotune()` gets the model and a batch, and its
`step` trains. Its first run searches and keeps its answer in its cache; the runs that are timed
take it from there. Its baseline is "PyTorch-default fp32 eager", which the programs here are.

Each workload is three measurements: its search, then autotune's, whose budget goes by what the
rival's took, then the runs in turns of what the two hand back.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import delivered
from tests.bench.contestants import Example
from tests.bench.delivered import ORIGINAL, TUNED
from tests.bench.gpu_unit import PROGRAMS, RIVAL, Setting, Unit
from tests.bench.stopwatch import Lines, finding

PACKAGE = "pytorch-autotune==2.0.0"
CACHE = "PYTORCH_AUTOTUNE_CACHE"
# autotune is to take half of the rival's time at most, all in all: its budget is a little less, and
# less by what it takes to start and to end. In less than the least it finds nothing.
SHARE_OF_ITS_SEARCH, START_SECONDS, LEAST_BUDGET_SECONDS = 0.45, 30.0, 60.0
_STEP = """\
            optimizer.zero_grad()
            loss = loss_of(model(inputs), labels)
            loss.backward()
            optimizer.step()
"""
_OPTIMIZER = "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"
_TUNED_BY_IT = """\
    inputs, labels = next(iter(loader))
    inputs = inputs.to(device)
    if not inputs.dtype.is_floating_point and inputs.dim() == 4:
        inputs = inputs.float().div_(255)
    began = time.perf_counter()
    result = pytorch_autotune.autotune(
        model,
        (inputs, labels.to(device)),
        loss_fn=loss_of,
        optimizer="adamw",
        lr=1e-3,
        budget={budget!r},
        device=device,
    )
    print(f"searched for {{time.perf_counter() - began:.1f}} s: {{result.config}}", flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A program of `gpu_programs`, with the line of its sizes replaced."""

    name: str
    program: str
    sizes: tuple[str, str]
    batch: int
    steps: int
    warm_steps: int
    rounds: int
    turns_seconds: float

    @property
    def measurement(self) -> str:
        """What the runs in turns are called; the searches before them are called after it."""
        return f"rivals-{self.name}"

    def text(self, rehearse: bool) -> str:
        """The program as it is."""
        text = (PROGRAMS / f"{self.program}.py").read_text()
        old, new = self.sizes
        return _replaced(text, old, _TINY[self.program] if rehearse else new)

    def example(self, rehearse: bool) -> Example:
        """As `tests.bench.delivered` knows programs."""
        batch, steps, warm = (8, 60, 20) if rehearse else (self.batch, self.steps, self.warm_steps)
        return Example(
            name=self.name,
            arguments=("--steps", str(steps)),
            lines=Lines(pattern=r"step (?P<step>\d+): ", batch=batch, warm_samples=warm * batch),
            workload="",
            adoption=(),
        )


_IMAGES = "DEPTH, PIXELS, BATCH, PICTURES, WORKERS = 50, 224, 64, 4096, 8"
_TOKENS = "LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORKERS = 6, 512, 8, 128, 32, 2"
_TINY = {
    "images": "DEPTH, PIXELS, BATCH, PICTURES, WORKERS = 18, 32, 8, 256, 0",
    "tokens": "LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORKERS = 2, 32, 2, 16, 8, 0",
}
WORKLOADS = (
    Workload(
        name="resnet18",
        program="images",
        sizes=(_IMAGES, "DEPTH, PIXELS, BATCH, PICTURES, WORKERS = 18, 32, 128, 32768, 8"),
        batch=128,
        steps=1000,
        warm_steps=300,
        rounds=2,
        turns_seconds=110,
    ),
    Workload(
        name="transformer",
        program="tokens",
        sizes=(_TOKENS, _TOKENS),
        batch=32,
        steps=1000,
        warm_steps=300,
        rounds=2,
        turns_seconds=110,
    ),
    Workload(
        name="resnet50",
        program="images",
        sizes=(_IMAGES, _IMAGES),
        batch=64,
        steps=500,
        warm_steps=200,
        rounds=1,
        turns_seconds=100,
    ),
)


def theirs(workload: Workload, setting: Setting) -> dict[str, Any]:
    """What pytorch-autotune's search says and takes, and the cache that it keeps its answer in."""
    packages, cache = setting.work / "empty", setting.work / "cache.json"
    install(packages)
    program = setting.work / "program.py"
    budget = 10 if setting.rehearse else setting.rival_budget
    program.write_text(with_rival(workload.text(setting.rehearse), budget))
    with _cache(cache):
        facts = search_by_it(program, packages)
    return {**facts, "budget": budget, "cache": json.loads(cache.read_text())}


def ours(workload: Workload, setting: Setting) -> dict[str, Any]:
    """What autotune's search says, takes, and hands back."""
    example = workload.example(setting.rehearse)
    original = _original(workload, setting)
    return search_by_us(example, original.parents[1], budget_beside(workload, setting))


def budget_beside(workload: Workload, setting: Setting) -> str:
    """The budget with which the whole search stays within half of what the rival's took."""
    if setting.budget:
        return setting.budget
    its = setting.needed(f"{workload.measurement}-theirs")["wall_seconds"]
    seconds = max(LEAST_BUDGET_SECONDS, SHARE_OF_ITS_SEARCH * its - START_SECONDS)
    return f"{seconds:.0f}s"


def search_by_us(example: Example, root: Path, budget: str) -> dict[str, Any]:
    """A whole search as a user sees it; with the program as its patch leaves it, if it has one."""
    began = time.perf_counter()
    claim = delivered.search(example, root, budget)
    wall_seconds = time.perf_counter() - began
    tuned = root.parent / TUNED / "examples" / example.tuned
    return {
        "claim": asdict(claim),
        "budget": budget,
        "wall_seconds": wall_seconds,
        "tuned": tuned.read_text() if tuned.exists() else None,
        "patch_applied_by_git": tuned.exists() and shutil.which("git") is not None,
        "result": json.loads((root.parent / "out" / "result.json").read_text()),
    }


def turns(workload: Workload, setting: Setting) -> dict[str, Any]:
    """Whole runs of the program as it is and of what both searches hand back: no more rounds than
    were asked for, so that they take no longer than a go.
    """
    example, packages = workload.example(setting.rehearse), setting.work / "empty"
    own = setting.needed(f"{workload.measurement}-ours")["tuned"]
    its = setting.needed(f"{workload.measurement}-theirs")
    install(packages)
    original = _original(workload, setting)
    programs = {ORIGINAL: original}
    if own:
        programs[TUNED] = written(own, setting.work / TUNED / "examples" / example.tuned)
    text = with_rival(original.read_text(), its["budget"])
    programs[RIVAL] = written(text, setting.work / RIVAL / "examples" / example.original)
    cache = written(json.dumps(its["cache"]), setting.work / "cache.json")
    rounds = setting.rounds or workload.rounds
    with _cache(cache):
        timings = delivered.take_turns(example, programs, rounds, setting.work, most_rounds=rounds)
    return {"rounds": rounds, **delivered.raw_of(timings, example.lines.warm_samples)}


def _original(workload: Workload, setting: Setting) -> Path:
    """The program as it is, under version control."""
    root = setting.work / ORIGINAL
    example = workload.example(setting.rehearse)
    original = written(workload.text(setting.rehearse), root / "examples" / example.original)
    delivered.under_version_control(root)
    return original


def written(text: str, path: Path) -> Path:
    """`path`, with `text` in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def install(folder: Path) -> None:
    """The rival's published package, in the folder that every timed program has on its path."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-q", "--no-deps"),
            *("--target", str(folder), PACKAGE),
        ],
        check=True,
        capture_output=True,
        text=True,
    )


def with_rival(text: str, budget: str | int) -> str:
    """The program `text`, trained by what pytorch-autotune hands back; `budget` is "fast",
    "balanced", "max" or seconds.
    """
    text = _replaced(text, "import argparse\n", "import argparse\nimport time\n")
    text = _replaced(text, "import torch\n", "import pytorch_autotune\nimport torch\n")
    text = _replaced(text, _OPTIMIZER, _TUNED_BY_IT.format(budget=budget))
    return _replaced(text, _STEP, "            loss = result.step(inputs, labels)\n")


def search_by_it(program: Path, packages: Path) -> dict[str, Any]:
    """Its search, in a process of its own that then trains a single step."""
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, str(program), "--steps", "1"],
        check=True,
        capture_output=True,
        text=True,
        env=finding(packages),
    )
    searched = [line for line in ran.stdout.splitlines() if line.startswith("searched for")]
    return {
        "search_seconds": float(searched[0].split()[2]),
        "wall_seconds": time.perf_counter() - began,
        "picked": searched[0].partition(": ")[2],
        "said": ran.stdout,
    }


@contextmanager
def _cache(path: Path) -> Iterator[None]:
    os.environ[CACHE] = str(path)
    try:
        yield
    finally:
        del os.environ[CACHE]


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"the program has {old!r} {text.count(old)} times, and not once")
    return text.replace(old, new)


def _units(workload: Workload) -> tuple[Unit, ...]:
    name = workload.measurement
    return (
        Unit(part="rivals", name=f"{name}-theirs", seconds=110, measure=partial(theirs, workload)),
        Unit(
            part="rivals",
            name=f"{name}-ours",
            seconds=90,
            measure=partial(ours, workload),
            needs=(f"{name}-theirs",),
        ),
        Unit(
            part="rivals",
            name=name,
            seconds=workload.turns_seconds,
            measure=partial(turns, workload),
            needs=(f"{name}-theirs", f"{name}-ours"),
        ),
    )


UNITS = tuple(unit for workload in WORKLOADS for unit in _units(workload))
