"""Training from other random numbers, on the same data."""

from pathlib import Path

import pytest
import torch
from torch import nn

from autotune.workload.setup import Setup
from tests.workload.programs import PLAIN, losses

SEEDED = PLAIN.replace("model = ", "torch.manual_seed(12)\nmodel = ")
SEEDED_ALIKE = PLAIN.replace("model = ", "torch.manual_seed(1)\nmodel = ").replace(
    "in loader:", "in (dataset[torch.randint(0, 200, (32,))] for _ in range(7)):"
)
DROPPING = PLAIN.replace("nn.ReLU()", "nn.ReLU(), nn.Dropout(0.5)").replace(
    "optimizer =", "torch.manual_seed(3)\noptimizer ="
)
OWN_ORDER = PLAIN.replace(
    "shuffle=True", "shuffle=True, generator=torch.Generator().manual_seed(5)"
).replace(
    "loader =", "for weights in model.parameters(): nn.init.constant_(weights, 0.1)\nloader ="
)
DATA = PLAIN.replace(
    "criterion =", "print('sum', inputs.sum().item(), flush=True)\ncriterion ="
).replace("generator = torch.Generator().manual_seed(0)", "generator = None")


@pytest.mark.parametrize("text", [PLAIN, SEEDED, SEEDED_ALIKE, DROPPING, OWN_ORDER], ids=range(5))
def test_another_seed_is_another_training_of_its_own(text: str, tmp_path: Path) -> None:
    own, other, again, third = (
        losses(text, tmp_path, count=8, setup=Setup(reseed=seed)) for seed in (0, 1, 1, 2)
    )
    assert other == again
    assert len({own[-1], other[-1], third[-1]}) == 3


def test_a_model_that_is_loaded_is_trained_with_another_order(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), tmp_path / "model.pt")
    path = str(tmp_path / "model.pt")
    built = "nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))"
    text = PLAIN.replace(built, f"torch.load({path!r}, weights_only=False)")
    assert text != PLAIN
    own, other = (losses(text, tmp_path, count=8, setup=Setup(reseed=seed)) for seed in (0, 1))
    assert own != other


def test_data_that_was_drawn_before_the_model_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        losses(DATA, tmp_path, count=2, setup=Setup(reseed=seed))
    said = capfd.readouterr().out.splitlines()
    assert len({each for each in said if each.startswith("sum")}) == 1
