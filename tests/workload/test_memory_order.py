"""A program that reads memory as if it lay in the usual order is stopped where it does not."""

from pathlib import Path

import pytest
import torch

from autotune.workload.conversation import Ended, RunWindow
from autotune.workload.setup import Setup
from tests.workload.programs import HEAD, run

READS = (
    HEAD
    + """
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for x, y in DataLoader(dataset, batch_size=100):
    criterion(model(x), y).backward()
    optimizer.step()
images = torch.randn(2, 3, 4, 4)
READ(images)
torch.save(images, "saved")
images = images.to(memory_format=torch.channels_last)
torch.save(images, "saved")
copied = images.contiguous()
READ(copied)
file = open("last", "w")
file.close()
READ(images)
"""
)


@pytest.mark.parametrize(
    "reads",
    [
        "(lambda t: t.as_strided((2, 2), (2, 1)))",
        "(lambda t: torch.as_strided(t, (2, 2), (2, 1)))",
    ],
)
def test_what_lies_otherwise_is_not_read(reads: str, tmp_path: Path) -> None:
    text = READS.replace("READ", reads)
    before = torch.Tensor.as_strided, torch.as_strided
    with pytest.raises(RuntimeError, match="a tensor that is channels last"):
        run(text, FOR_EVER, setup=Setup(epoch_batches=2), folder=tmp_path)
    assert (tmp_path / "last").exists(), "it was the last of them"
    assert before == (torch.Tensor.as_strided, torch.as_strided)


def test_a_run_that_is_measured_is_left_alone(tmp_path: Path) -> None:
    text = READS.replace("READ", "(lambda t: t.as_strided((2, 2), (2, 1)))")
    assert isinstance(run(text, FOR_EVER, folder=tmp_path)[-1], Ended)


FOR_EVER = RunWindow(seconds=float("inf"))
