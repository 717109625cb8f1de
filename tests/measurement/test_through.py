"""What a program's settings break late is seen in a run past the ends of its epochs."""

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import RunEnded
from autotune.measurement.untimed.through import Through, run_through
from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target

pytestmark = pytest.mark.usefixtures("lent_zygote")

# An epoch of some minutes; then a summary of the weights, which only their usual order allows.
TRAIN = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
dataset = TensorDataset(torch.randn(200_000, 3, 8, 8), torch.randint(0, 2, (200_000,)))
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(EPOCHS):
    for x, y in DataLoader(dataset, batch_size=2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert model[0].weight.is_contiguous(), "the weights lie otherwise"
"""


def ran(
    folder: Path, epochs: int, config: Config, *, seconds: float = 60.0, steps: int = 0
) -> Through:
    path = folder / "train.py"
    path.write_text(TRAIN.replace("EPOCHS", str(epochs)))
    with Workbench(load_target(path)) as bench:
        start = functools.partial(bench.start, config)
        return run_through(start, batches=2, seconds=seconds, steps=steps)


def test_a_program_comes_to_its_end(tmp_path: Path) -> None:
    found = ran(tmp_path, 3, {})
    assert found.ended and found.failure is None and found.seconds < 60.0


def test_what_its_settings_break_after_an_epoch_is_seen(tmp_path: Path) -> None:
    found = ran(tmp_path, 3, {"channels_last": True})
    assert not found.ended and found.failure is not None
    assert found.failure.reason == "AssertionError: the weights lie otherwise"
    assert found.steps == 2


def test_it_is_run_no_further_than_to_so_many_steps(tmp_path: Path) -> None:
    found = ran(tmp_path, 1_000_000, {}, steps=7)
    assert found.steps == 7 and not found.ended and found.failure is None
    assert ran(tmp_path, 2, {}, steps=7).ended


def test_time_that_is_over_is_no_failure(tmp_path: Path) -> None:
    found = ran(tmp_path, 1_000_000, {}, seconds=1.0)
    assert not found.ended and found.failure is None and 1.0 <= found.seconds < 30.0


def test_a_disk_that_is_full_of_checkpoints_is_no_failure() -> None:
    def end(*_: Any) -> None:
        raise RunEnded(Failure(kind="no_space", reason="No space left on device"))

    run: Any = SimpleNamespace(await_first_step=lambda: None, seen=end, kill=lambda: None)
    found = run_through(lambda **_: run, batches=2, seconds=5.0)
    assert found.failure is None and not found.ended


def test_what_fails_at_once_has_failed_after_no_time(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAIN.replace("EPOCHS", "nothing"))
    with Workbench(load_target(path)) as bench:
        found = run_through(bench.start, batches=2, seconds=5.0)
    assert found.seconds == 0.0 and found.failure and "NameError" in found.failure.reason
