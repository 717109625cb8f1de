"""A shorter number format is left out where what the model is given loses what it tells in it, now
or later on.
"""

import pytest

from autotune.workload.looks.again import has_units
from tests.traps.conftest import Vet

VALUES = ("fp32", "bf16")
PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
step = 0
while True:
    x = torch.randn(32, 4)
    {columns}
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
"""


def program(columns: str) -> str:
    return PROGRAM.format(columns=columns)


@pytest.mark.parametrize(
    "columns",
    [
        "x[:, 2] = torch.randint(1990, 2021, (32,)).float()",  # years
        "x[:, 0] += 290",  # kelvins
        "x = x.double(); x[:, 1] += 500; x = x.float()",
        "x = x[:, None, None].repeat(1, 6, 5, 1); x[..., 0] += 290; x[..., 1] *= 100",
        "x = x[:, None].repeat(1, 2000, 1); x[..., 0] += 290",  # a sample's rows are alike
        "nn.Linear(3, 1)(torch.zeros(32, 0, 3)); x[:, 0] += 290",  # no boxes in a batch
    ],
)
def test_large_numbers_that_differ_little_are_refused(rounding: Vet, columns: str) -> None:
    found = rounding(program(columns), VALUES)
    assert found.values == ("fp32",)
    assert found.reason.startswith("in bf16 numbers of around")
    assert "that come into a layer at train.py:1" in found.reason
    assert "those of a batch differ by" in found.reason


@pytest.mark.parametrize(
    "columns",
    [
        "pass",
        "x *= 1e4",
        "x[:, 2] = 1990",  # the same for all
        "x[:, 2] = 0.1 + 1e-9 * x[:, 2]",
        "x[:, 1] = 1990 + 0 * x[:, 1]; x[:, 0] += 2",
        "x[:, 0] = torch.nan",
        "x[:, 0] += 0.001 * step % 1",
        "x[:, 0] += (30 if step % 2 else 0)",  # up and down
        "x = x[:4]; x[:, 0] += 290",  # too few to tell
        "x[:, 3] = step / 4 + torch.rand(32) / 5",  # in order: all of them differ by more
        "x = 400 * x[None, None]; x[..., 0] = 6 * torch.randn(32) - 1000",  # an image's border
    ],
)
def test_others_are_not(rounding: Vet, columns: str) -> None:
    assert rounding(program(columns), VALUES).values == VALUES


@pytest.mark.parametrize(("offset", "refused"), [(290, True), (2, False)])
def test_channels_of_one_dimension_are_columns(rounding: Vet, offset: float, refused: bool) -> None:
    columns = f"x = torch.randn(32, 4, 3); x[:, 0] += {offset}; x[:, 1] *= 10"
    text = program(columns).replace("nn.Linear(4, 16)", "nn.Conv1d(4, 16, 3), nn.Flatten()")
    assert rounding(text, VALUES).values == (("fp32",) if refused else VALUES)


STREAM = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

class Log(IterableDataset):
    def __iter__(self):
        for number in range(1_000_000):
            yield torch.tensor([number / 80 {until}])

class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn, self.head = nn.Linear(1, 8, bias=False), nn.Linear(8, 1)
        self.turn.weight.data.fill_(1.0)
        self.turn.requires_grad_(False)

    def forward(self, hours):
        return self.head(self.turn(hours).cos())

net = Waves()
optimizer = torch.optim.SGD(net.head.parameters(), lr=0.01)
for hours in DataLoader(Log(), batch_size=8):
    time.sleep(0.05)
    loss = net(hours).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("until", "refused"), [("", True), ("% 6", False)])
def test_what_the_loader_comes_to_much_later_is_looked_at(
    rounding: Vet, until: str, refused: bool
) -> None:
    found = rounding(STREAM.format(until=until), VALUES)
    assert found.values == (("fp32",) if refused else VALUES), found.reason
    assert not refused or "a sine or cosine" in found.reason


@pytest.mark.skipif(not has_units("cpu", "bfloat16"), reason="this processor has no bf16 units")
@pytest.mark.parametrize(("until", "refused"), [("", True), ("% 0.9", False)])  # never up to 1
def test_a_late_batch_is_computed_in_both_formats(rounding: Vet, until: str, refused: bool) -> None:
    """What no look knows: the shares of an hour, rounded away beside hundreds of hours. Each batch
    has all of them, whichever is the last one.
    """
    share = "(hours @ self.turns) % 1"
    text = STREAM.format(until=until).replace("self.turn(hours).cos()", share)
    text = text.replace("number / 80", "0.37 * number")
    kept = "net = Waves()\nnet.register_buffer('turns', torch.ones(1, 8))"
    found = rounding(text.replace("net = Waves()", kept), VALUES)
    assert found.values == (("fp32",) if refused else VALUES), found.reason
    assert not refused or "of a batch that comes much later, the model then gives" in found.reason
