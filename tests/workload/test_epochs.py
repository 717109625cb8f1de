"""What is looked at as an epoch begins is none of the training's time."""

import multiprocessing
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from autotune.workload.conversation import Tell
from autotune.workload.seams import loader
from tests.workload.programs import HEAD, run, seen_of, steps, window_of

EPOCHS = (
    HEAD
    + """
options = dict(batch_size=50, num_workers=1, multiprocessing_context="fork", OTHER)
loader = DataLoader(dataset, **options)
validation = DataLoader(torch.utils.data.Subset(dataset, range(50)), **options)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(50):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in validation: model(x)
    model.train()
"""
)
LOOK_SECONDS = 1.0


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of each look at all that samples are made from: of how many, and how many workers read."""
    looks: list[tuple[int, int]] = []

    def look(loader: Any) -> dict[str, int]:
        looks.append((len(loader.dataset), len(multiprocessing.active_children())))
        time.sleep(LOOK_SECONDS)
        return {}

    monkeypatch.setattr(loader, "kept_to_read", look)
    return looks


def test_a_look_at_the_dataset_is_no_part_of_a_step(
    looked_at: list[tuple[int, int]], tmp_path: Path
) -> None:
    window = window_of(run(EPOCHS.replace("OTHER", ""), steps(9), folder=tmp_path))
    assert looked_at == [(200, 0)] * 3, "the training loader, before its workers are started"
    assert max(window.step_seconds) < LOOK_SECONDS
    assert window.validation_seconds < LOOK_SECONDS


@pytest.mark.parametrize("persistent", [False, True])
def test_it_is_looked_at_where_somebody_asks(
    persistent: bool, looked_at: list[tuple[int, int]], tmp_path: Path
) -> None:
    text = EPOCHS.replace("OTHER", f"persistent_workers={persistent}")
    run(text, steps(5), phases=False, folder=tmp_path)
    assert len(looked_at) == (2 if persistent else 0)


def test_a_loader_that_is_begun_in_each_step_is_described_once(tmp_path: Path) -> None:
    text = HEAD + textwrap.dedent("""
        class Sized(TensorDataset):
            asked, number = 0, 0
            def __len__(self):
                Sized.asked += 1
                return super().__len__()
        dataset = Sized(inputs, targets)
        loader = DataLoader(dataset, batch_size=20, sampler=range(200))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        for step in range(30):
            x, y = next(iter(loader))
            dataset.number = step
            if step == 29: del loader
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            if step == 3: before = Sized.asked
            if step == 28: assert Sized.asked == before
        """)
    reports = run(text, steps(29), Tell(), phases=False, folder=tmp_path)
    loader = seen_of(reports).loader
    assert loader is not None and loader.epochs == 30 and loader.changing
