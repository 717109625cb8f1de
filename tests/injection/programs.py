"""A training program that says what it was set up with, and the result of a search of it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from autotune.knobs.knob import Config
from autotune.outputs.document import write_document
from autotune.source.edits import Place, Places
from autotune.workload.program.target import load_target
from tests import builders

TRAIN = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train():
    dataset = TensorDataset(torch.randn(64, 3, 4, 4), torch.randint(0, 2, (64,)))
    loader = DataLoader(dataset, batch_size=16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    sys.stdout.write(  # at once: another process may be saying the same
        f"workers {loader.num_workers} threads {torch.get_num_threads()} "
        f"fused {optimizer.defaults['fused']}\\n"
    )
    sys.stdout.flush()


"""
PLAIN = TRAIN + "train()\n"
LOADER_LINE = 1 + TRAIN.splitlines().index("    loader = DataLoader(dataset, batch_size=16)")

TUNED: Config = {"threads": 1, "num_workers": 1, "optimizer": "fused"}
WITH_TUNED = "workers 1 threads 1 fused True\n"


def searched(script: Path, text: str, config: Config) -> Path:
    """A folder beside `script`, whose text becomes `text`, with a search that found `config`."""
    script.parent.mkdir(exist_ok=True)
    script.write_text(text)
    target = load_target(script)
    facts = builders.target(
        kind=target.kind,
        name=target.name,
        path=target.path,
        arguments=(),
        source_sha256=target.source_sha256,
    )
    places = Places(loader=Place(path=target.path, line=LOADER_LINE))
    result = builders.search_result(target=facts)
    assert result.verdict is not None
    outcome = "faster" if config else "no_gain"
    result = replace(
        result,
        profile=builders.profile(seen=builders.seen(places=places)),
        verdict=replace(result.verdict, outcome=outcome, config=config),
        edits=(),
        patch="",
    )
    out = script.with_name("out")
    write_document(result, out / "result.json")
    return out


def autotune_run(
    out: Path, *words: str, said: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """`autotune run OUT WORDS` as a person starts it, in the folder above OUT."""
    own = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        [sys.executable, "-m", "autotune", "run", str(out), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=out.parent,
        env={**own, **environment},
        input=said,
    )
