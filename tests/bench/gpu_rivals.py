"""autotune against pytorch-autotune 2.0.0 on its three workloads, and against loadtune 0.3.0 on
JPEG files: whole fresh processes with their real loaders, by one stopwatch.

pytorch-autotune is used as its README says: its `autotune()` gets the model and a batch, and its
`step` trains. Its first run searches and keeps its answer in its cache; the runs that are timed
take it from there. Its baseline is "PyTorch-default fp32 eager", which the programs here are.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import delivered, rival
from tests.bench.contestants import EXAMPLES, Example
from tests.bench.delivered import ORIGINAL, TUNED
from tests.bench.gpu_unit import PROGRAMS, RIVAL, Setting, Unit
from tests.bench.stopwatch import Lines

PACKAGE = "pytorch-autotune==2.0.0"
CACHE = "PYTORCH_AUTOTUNE_CACHE"
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
        name="resnet50",
        program="images",
        sizes=(_IMAGES, _IMAGES),
        batch=64,
        steps=500,
        warm_steps=200,
    ),
    Workload(
        name="resnet18",
        program="images",
        sizes=(_IMAGES, "DEPTH, PIXELS, BATCH, PICTURES, WORKERS = 18, 32, 128, 32768, 8"),
        batch=128,
        steps=1500,
        warm_steps=500,
    ),
    Workload(
        name="transformer",
        program="tokens",
        sizes=(_TOKENS, _TOKENS),
        batch=32,
        steps=1500,
        warm_steps=500,
    ),
)


def contest(workload: Workload, setting: Setting) -> dict[str, Any]:
    """Let both tune `workload`, then time what each hands back: no more rounds than were asked for,
    so that it takes no longer than a go.
    """
    example, packages = workload.example(setting.rehearse), setting.work / "empty"
    install(packages)
    original = setting.work / ORIGINAL / "examples" / example.original
    original.parent.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(original.parents[1])], check=True)
    original.write_text(workload.text(setting.rehearse))
    began = time.perf_counter()
    claim = delivered.search(example, original.parents[1], setting.budget)
    facts: dict[str, Any] = {
        "claim": asdict(claim),
        "search_seconds": time.perf_counter() - began,
        "rounds": setting.rounds,
    }
    programs = {ORIGINAL: original}
    if claim.outcome == "faster":
        programs[TUNED] = setting.work / TUNED / "examples" / example.tuned
    programs[RIVAL] = setting.work / RIVAL / "examples" / example.original
    programs[RIVAL].parent.mkdir(parents=True)
    programs[RIVAL].write_text(
        with_rival(original.read_text(), 10 if setting.rehearse else setting.rival_budget)
    )
    with _cache(setting.work / "cache.json"):
        facts["pytorch_autotune"] = search_by_it(programs[RIVAL], packages)
        timings = delivered.take_turns(
            example, programs, setting.rounds, setting.work, most_rounds=setting.rounds
        )
    warm = example.lines.warm_samples
    return {
        **facts,
        "samples_per_second": {
            name: [run.rate(warm) for run in runs] for name, runs in timings.items()
        },
        "runs": {name: [asdict(run) for run in runs] for name, runs in timings.items()},
    }


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
        env={**os.environ, "PYTHONPATH": str(packages)},
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


def against_loadtune(setting: Setting) -> dict[str, Any]:
    """The JPEG example, which loads in its own process: `tests.bench.delivered`'s contest."""
    photos = next(example for example in EXAMPLES if example.name == "photos")
    epochs = "2" if setting.rehearse else "12"
    loadtune = rival.install(setting.work / "loadtune-venv")
    return delivered.contest(
        replace(photos, arguments=("--epochs", epochs)),
        setting.work,
        rounds=setting.rounds,
        most_rounds=setting.rounds,
        budget=setting.budget,
        loadtune=loadtune,
    )


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"the program has {old!r} {text.count(old)} times, and not once")
    return text.replace(old, new)


def _unit(workload: Workload) -> Unit:
    return Unit(
        part="rivals",
        name=f"rivals-{workload.name}",
        seconds=400,
        measure=lambda setting: contest(workload, setting),
    )


UNITS = (
    *(_unit(workload) for workload in WORKLOADS),
    Unit(part="rivals", name="rivals-jpeg", seconds=240, measure=against_loadtune),
)
