"""Epochs are cut short where a run is to come to what follows them."""

import sys
from pathlib import Path

import pytest
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from autotune.workload.conversation import Ended, RunWindow
from autotune.workload.setup import Setup
from tests.workload.programs import HEAD, run

EPOCHS = (
    HEAD
    + """
import itertools
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return zip(inputs, targets)
class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return itertools.cycle(zip(inputs, targets))
loader = DataLoader(DATASET, batch_size=10, OPTIONS)
validation = DataLoader(dataset, batch_size=100)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(3):
    trained = 0
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        trained += 1
    with open("counted", "a") as file:
        print(trained, len(list(validation)), LENGTH, file=file)
"""
)
FOR_EVER = RunWindow(seconds=float("inf"))


@pytest.mark.parametrize(
    ("dataset", "options", "length"),
    [
        ("dataset", "shuffle=True", "len(loader)"),
        ("dataset", "num_workers=2, multiprocessing_context='fork'", "len(loader)"),
        (
            "dataset",
            "num_workers=2, multiprocessing_context='fork', persistent_workers=True",
            "len(loader)",
        ),
        ("Stream()", "", "4"),
        ("Endless()", "num_workers=1, multiprocessing_context='fork'", "4"),
    ],
    ids=["map-style", "workers", "workers that live on", "a stream", "one without an end"],
)
def test_each_epoch_ends_after_so_many_batches(
    dataset: str, options: str, length: str, tmp_path: Path
) -> None:
    text = EPOCHS.replace("DATASET", dataset).replace("OPTIONS", options).replace("LENGTH", length)
    *_, last = run(text, FOR_EVER, setup=Setup(epoch_batches=4), folder=tmp_path)
    assert isinstance(last, Ended) and last.steps == 12
    assert (tmp_path / "counted").read_text() == "4 2 4\n" * 3


@pytest.mark.parametrize("workers", ["0", "2, persistent_workers=True", "1"])
@pytest.mark.parametrize(("order", "expected"), [("", "0 31 62 94"), ("shuffle=True", "others")])
def test_data_in_order_is_gone_through_to_its_end(
    workers: str, order: str, expected: str, tmp_path: Path
) -> None:
    text = (
        HEAD
        + f"""
numbers = torch.utils.data.TensorDataset(inputs[:95], torch.arange(95))
loader = DataLoader(numbers, 1, {order or "shuffle=False"}, num_workers={workers})
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(3):
    came = []
    for x, number in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        came.append(int(number))
    with open("came", "a") as file:
        print(*came, file=file)
"""
    )
    run(text, FOR_EVER, setup=Setup(epoch_batches=4), folder=tmp_path)
    lines = (tmp_path / "came").read_text().splitlines()
    assert all(len(line.split()) == 4 for line in lines)
    assert (lines == [expected] * 3) is (not order)


def test_they_are_whole_again_afterwards(tmp_path: Path) -> None:
    before = DataLoader.__len__, _SingleProcessDataLoaderIter._next_data
    text = EPOCHS.replace("DATASET", "dataset").replace("OPTIONS", "").replace("LENGTH", "0")
    run(text, FOR_EVER, setup=Setup(epoch_batches=1), folder=tmp_path)
    assert before == (DataLoader.__len__, _SingleProcessDataLoaderIter._next_data)


def test_another_training_loop_is_gone_through_as_well(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
for kind in (torch.optim.SGD, torch.optim.AdamW):
    optimizer = kind(model.parameters(), lr=1e-2)
    for epoch in range(15):
        for x, y in DataLoader(dataset, batch_size=10):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
open("over", "w").close()
"""
    )
    *_, last = run(text, FOR_EVER, setup=Setup(epoch_batches=2), folder=tmp_path)
    assert isinstance(last, Ended) and last.loop_seconds is None
    assert (tmp_path / "over").exists()


def test_the_trainer_of_hugging_face_evaluates_and_saves_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "transformers"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "trainer_callback.py").write_text(
        "class TrainerState:\n"
        "    def compute_steps(self, args, max_steps):\n"
        "        self.logging_steps, self.eval_steps, self.save_steps = args\n"
    )
    for name in ("transformers", "transformers.trainer_callback"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    text = (
        HEAD
        + """
from transformers.trainer_callback import TrainerState
state = TrainerState()
state.compute_steps((20, 400, None), max_steps=9)
with open("steps", "w") as file:
    print(state.logging_steps, state.eval_steps, state.save_steps, file=file)
"""
    )
    finders = list(sys.meta_path)
    try:
        run(text, setup=Setup(epoch_batches=2), folder=tmp_path)
    finally:
        for name in ("transformers", "transformers.trainer_callback"):
            sys.modules.pop(name, None)
    assert (tmp_path / "steps").read_text() == "20 2 None\n"
    assert sys.meta_path == finders
