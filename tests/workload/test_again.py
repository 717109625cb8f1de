"""What a model gives with its weights channels last, and in bf16, is held to what it gives as it
is.
"""

from pathlib import Path

import pytest

from autotune.workload.conversation import RunWindow, Watched
from autotune.workload.found import Again
from autotune.workload.looks import again
from autotune.workload.window import AGAIN
from tests.workload.programs import run

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8 * 4 * 4, 4)
        self.drop = nn.Dropout(0.5)
        self.words = nn.Embedding(4 ** 6 + 1, 128)
        self.register_buffer("powers", torch.tensor([[[4.0 ** i for i in range(6)]]]))

    def forward(self, x):
        x = self.stem(x)
        {cut}
        return self.head(self.drop(x.reshape(len(x), -1)))

torch.manual_seed(0)
model = Net(){end}
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(50):
    optimizer.zero_grad()
    model(torch.randn(4, 3, 8, 8){end}).float().square().mean().backward()
    optimizer.step()
"""
BY_INDEX = "x = x[..., :4, :4]"
BY_STRIDES = "x = x.as_strided((len(x), 8, 4, 4), (512, 64, 8, 1))"
BY_IDS = """letters = torch.arange(64).remainder(4).float().expand(len(x), 64).roll(1)
        x = self.words(F.conv1d(letters[:, None], self.powers).long()).mean((1, 2))"""


UNTIL_STILL = """x, before, last = x[..., :4, :4].flatten(1), 0, 1e9
        weight = 0.95 * torch.linalg.qr(torch.ones(128, 128).tril() - 0.5)[0]
        y = torch.zeros_like(x)
        for _ in range(400):
            before, y = y, F.linear(y, weight) + x
            change = float((y - before).detach().norm() / y.detach().norm())
            if change < 1e-5:
                break
        x = y"""


@pytest.fixture(autouse=True)
def with_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU that has units for bf16."""
    monkeypatch.setattr(again, "has_units", lambda *_: True)


def looked_at(cut: str, folder: Path, end: str = "") -> Again:
    text = PROGRAM.format(cut=cut, end=end)
    reports = run(text, RunWindow(seconds=0.0, steps=1, mode=AGAIN), folder=folder)
    (found,) = [each.found for each in reports if isinstance(each, Watched)]
    assert isinstance(found, Again)
    return found


def test_a_model_that_reads_by_strides_gives_something_else_channels_last(tmp_path: Path) -> None:
    found = looked_at(BY_STRIDES, tmp_path)
    assert found.channels_last is not None and found.channels_last.apart > 0.5
    assert found.channels_last.by_chance < 1e-4
    bf16 = found.formats["bfloat16"]
    assert bf16 is not None and bf16.apart < 0.05


def test_a_model_that_reads_by_index_gives_the_same(tmp_path: Path) -> None:
    found = looked_at(BY_INDEX, tmp_path)
    assert found.channels_last is not None and found.channels_last.apart < 1e-4
    bf16 = found.formats["bfloat16"]
    assert bf16 is not None and bf16.apart < 0.05 and bf16.by_chance > 1e-3


def test_a_model_that_computes_ids_gives_something_else_in_bf16(tmp_path: Path) -> None:
    bf16 = looked_at(BY_IDS, tmp_path).formats["bfloat16"]
    assert bf16 is not None and bf16.apart > 0.25 and bf16.by_chance < 0.05


def test_a_loop_that_ends_by_its_numbers_is_told_by_its_calls(tmp_path: Path) -> None:
    found = looked_at(UNTIL_STILL, tmp_path)
    bf16 = found.formats["bfloat16"]
    assert bf16 is not None and abs(bf16.more_calls) > 0.2
    assert found.channels_last is not None and abs(found.channels_last.more_calls) < 0.05


def test_noise_of_its_own_is_told_as_chance(tmp_path: Path) -> None:
    generator = "torch.Generator().manual_seed(time.time_ns() % 2**31)"
    noise = f"import time; x = x[..., :4, :4] + torch.randn(4, 8, 4, 4, generator={generator})"
    found = looked_at(noise, tmp_path)
    assert found.channels_last is not None and found.channels_last.by_chance > 0.1


def test_noise_of_the_usual_streams_is_the_same_each_time(tmp_path: Path) -> None:
    found = looked_at(f"{BY_INDEX} + torch.randn(4, 8, 4, 4)", tmp_path)
    assert found.channels_last is not None and found.channels_last.apart < 1e-4


def test_calls_that_are_left_out_by_chance_are_none_of_a_setting(tmp_path: Path) -> None:
    drawn = "import random\n        for _ in range(random.randrange(500)): x = x + 0"
    found = looked_at(f"{drawn}\n        {BY_INDEX}", tmp_path)
    for each in (found.channels_last, found.formats["bfloat16"]):
        assert each is not None and abs(each.more_calls) < 0.05


@pytest.mark.parametrize(
    ("cut", "end"),
    [
        ("x = x.view(len(x), -1)[:, :128]", ""),  # fails in the other order
        (BY_INDEX, ".bfloat16()"),  # too coarse to tell
        ("assert self.training\n        x = x[..., :4, :4]", ""),  # only ever trains
        (f"while not self.training: self.stem[2](x)\n        {BY_INDEX}", ""),  # never ends
    ],
)
def test_of_others_it_cannot_be_told(cut: str, end: str, tmp_path: Path) -> None:
    assert looked_at(cut, tmp_path, end).channels_last is None
