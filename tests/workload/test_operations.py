"""Operations that a step starts are counted, and who starts most of them is named."""

from pathlib import Path
from typing import Any

import pytest
import torch

from autotune.workload.conversation import RunWindow, Watched
from autotune.workload.found import Operations
from autotune.workload.looks.watch import EachOperation
from autotune.workload.window import OPERATIONS, Window
from tests.workload.programs import run

SCORES = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(16, 16)

    def score(self, query, value):
        return query.dot(self.key(value))

    def forward(self, x):
        scores = torch.zeros(len(x), len(x))
        for one in range(len(x)):
            for other in range(len(x)):
                scores[one, other] = self.score(x[one], x[other])
        return scores.mean()

model = Scores()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(50):
    for x, in DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=8):
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
"""


def test_operations_of_all_passes_are_counted_with_the_function_that_starts_most(
    tmp_path: Path,
) -> None:
    command = RunWindow(seconds=0.0, steps=3, mode=OPERATIONS)
    reports = run(SCORES, RunWindow(seconds=0.0), command, RunWindow(seconds=0.0), folder=tmp_path)
    watched, after = reports[2:4]
    assert isinstance(watched, Watched) and isinstance(watched.found, Operations)
    found = watched.found
    # 64 products of two vectors, of what comes out of a layer, forward and backward: each of them
    # some twenty operations, of views too.
    assert 64 * 10 < found.per_step < 64 * 60
    assert found.function in ("score", "forward")
    assert found.share >= 0.5
    assert found.place is not None
    line = SCORES.splitlines()[found.place.line - 1]
    assert line.strip().startswith(f"def {found.function}")
    assert isinstance(after, Window)


class Counts(EachOperation):
    count = 0

    def note(self, *_: Any) -> None:
        self.count += 1


def test_a_look_at_each_operation_is_over_with_its_end_whatever_it_forgets() -> None:
    look = Counts()
    look.begin()
    torch.ones(2).sum()
    seen = look.count
    with pytest.raises(NotImplementedError):
        look.end()
    torch.ones(2).sum()
    assert look.count == seen > 0


POOL = """
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(10_000):
    optimizer.zero_grad()
    {outputs}
    sum(each.sum() for each in outputs).backward()
    optimizer.step()
"""
PARTS = "[torch.randn(2, 4) for _ in range(4)]"
IN_A_POOL = f"""if step == 0:
        pool = ThreadPoolExecutor(2)
    drawn = [pool.submit(torch.randn, 2, 4) for _ in range(10)]
    outputs = list(pool.map(model, {PARTS}))"""


def test_a_models_operations_are_counted_in_whichever_thread_they_are(tmp_path: Path) -> None:
    by_hand = _counted(f"outputs = [model(part) for part in {PARTS}]", tmp_path)
    # Two layers of a view and a product each, and what is between them, forward and backward.
    assert by_hand > 4 * 2 * 5
    assert _counted(IN_A_POOL, tmp_path) == by_hand


def _counted(outputs: str, folder: Path) -> float:
    command = RunWindow(seconds=0.0, steps=3, mode=OPERATIONS)
    source, window = POOL.replace("{outputs}", outputs), RunWindow(seconds=0.0)
    watched, after = run(source, window, command, window, folder=folder)[2:4]
    assert isinstance(watched, Watched) and isinstance(watched.found, Operations)
    assert isinstance(after, Window)
    return watched.found.per_step
