"""The largest batch of a program's data is found beside its training, and trained on."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.measurement.ablation import ablate
from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.untimed.largest import largest_batch
from autotune.profiling.profile import LargestBatch
from autotune.workload.window import LARGEST, Allocator, Window
from tests.measurement.conftest import Start
from tests.workload.programs import PLAIN

MIB = 1 << 20
# Texts of 4 to 16 numbers, and one of 4096, that comes late.
TEXTS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Texts(Dataset):
    def __len__(self):
        return 800
    def __getitem__(self, index):
        return torch.full((LONG if index == 790 else 4 + index % 13,), index % 50)

def collate(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)

model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Texts(), batch_size=8, collate_fn=collate, num_workers=WORKERS)
for epoch in range(100000):
    for texts in loader:
        optimizer.zero_grad()
        model(texts).mean().backward()
        optimizer.step()
"""


def text(*, longest: int = 4096, workers: int = 0) -> str:
    return TEXTS.replace("LONG", str(longest)).replace("WORKERS", str(workers))


def found(run: ProcessRun, seconds: float = 20.0) -> LargestBatch | None:
    last = run.window(0.0, steps=3)
    return largest_batch(run, run.seen(), seconds=seconds, last=last, beside_bytes=0)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_text_that_comes_late_is_found_and_trained_on(start: Start, workers: int) -> None:
    largest = found(start(text(workers=workers)))
    assert largest is not None
    assert (largest.looked_at, largest.of, largest.is_whole) == (100, 100, True)
    assert largest.shapes == ("int64[8, 4096]",)
    assert (largest.samples, largest.elements, largest.fits) == (8, 8 * 4096, True)
    (usual, least), (_, most) = largest.tried
    assert usual == largest.usual_elements < 8 * 17
    # 32768 rows of 64 numbers go into each of three layers.
    assert most - least > 8 * MIB


def test_as_far_as_the_time_reaches(start: Start) -> None:
    largest = found(start(text()), seconds=0.0)
    assert largest is not None and largest.fits is None
    assert largest.reason == "there was time to look at one alone"


def test_batches_that_are_alike_have_no_largest(start: Start) -> None:
    assert found(start(PLAIN.replace("range(50)", "range(50000)"))) is None


def test_one_for_which_there_is_no_memory_is_told(start: Start) -> None:
    program = text().replace(
        "    for texts in loader:\n",
        "    for texts in loader:\n"
        "        if texts.shape[1] > 1000:\n"
        "            raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB')\n",
    )
    largest = found(start(program))
    assert largest is not None
    assert largest.fits is False and len(largest.tried) == 1


def test_one_that_fails_otherwise_is_not_known_to_fit(start: Start) -> None:
    program = text().replace(
        "    for texts in loader:\n",
        "    for texts in loader:\n"
        "        if texts.shape[1] > 1000:\n"
        "            raise ValueError('too long')\n",
    )
    largest = found(start(program))
    assert largest is not None
    assert largest.fits is None and "too long" in largest.reason


def test_it_is_looked_for_where_memory_is_limited(start: Start) -> None:
    limits = {"seconds": 4.0, "cores": 2, "warm_seconds": 0.5}
    ablation = ablate(lambda: start(text()), **limits, memory_limited=True)
    assert ablation.largest is not None and ablation.largest.fits
    assert ablation.largest.elements == 8 * 4096
    unlimited = {**limits, "seconds": 1.0}
    assert ablate(lambda: start(text()), **unlimited).largest is None


GRAPHS = """
import torch
from torch import nn
from torch.utils.data import DataLoader

class Store:
    def __init__(self, size):
        self.values = {"x": torch.ones(size, 4), "edges": torch.zeros(2, 3 * size)}

class Graphs:  # as libraries have them: neither a container of torch's nor a dataclass
    def __init__(self, sizes):
        self.store = Store(sum(sizes))

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
sizes = [5] * 60 + [900] + [5] * 3
for epoch in range(100000):
    for graphs in DataLoader(sizes, batch_size=4, collate_fn=Graphs):
        optimizer.zero_grad()
        model(graphs.store.values["x"]).mean().backward()
        optimizer.step()
"""


def test_graphs_are_looked_into(start: Start) -> None:
    largest = found(start(GRAPHS))
    assert largest is not None and largest.fits
    assert largest.shapes == ("float32[915, 4]", "float32[2, 2745]")


def test_texts_that_the_loop_turns_into_numbers_are_measured_by_their_letters(start: Start) -> None:
    program = GRAPHS.replace("collate_fn=Graphs", "collate_fn=list").replace(
        "sizes = [5] * 60 + [900] + [5] * 3", "sizes = ['a' * 5] * 60 + ['a' * 900] + ['a' * 5] * 3"
    )
    program = program.replace(
        'graphs.store.values["x"]', "torch.ones(len(max(graphs, key=len)), 4)"
    )
    largest = found(start(program))
    assert largest is not None and largest.fits
    assert (largest.shapes, largest.elements) == ((), 915)


@pytest.mark.parametrize(("drawn", "fits"), [(2, True), (3, False)])
def test_a_batch_that_torch_makes_do_with_less_memory_for_has_fitted(
    start: Start, monkeypatch: pytest.MonkeyPatch, drawn: int, fits: bool
) -> None:
    run = start(text())
    timed, lacked = run.window, iter(range(1, 10))

    def window(seconds: float, **asked: Any) -> Window:
        taken = timed(seconds, **asked)
        more = (drawn - 2) * 8 if asked.get("mode") == LARGEST else 0
        known = Allocator(out_of_memories=next(lacked))
        return replace(taken, samples=taken.samples + more, allocator=known)

    monkeypatch.setattr(run, "window", window)
    largest = found(run)
    assert largest is not None and largest.fits is fits
