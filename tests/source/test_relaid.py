"""A fused optimizer is refused where weights get memory in another order while they train."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.relaid import relaid

TEXT = """\
import torch

def project(layer):
    q, r = torch.linalg.qr(layer.weight)
    GIVEN

def main():
    BEFORE
    for epoch in range(9):
        for x, y in loader:
            loss = (net(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
        project(net.layer)
"""


def found(given: str, before: str = "pass") -> str:
    text = TEXT.replace("GIVEN", given).replace("BEFORE", before)
    place = Place(path="/p/train.py", line=12)
    places = Places(backward=place, backwards=(place,))
    return relaid(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    "given",
    [
        "layer.weight.data = q * torch.sign(torch.diagonal(r))",
        "layer.weight.data = q",
        "layer.weight.data = layer.weight.T",
        "layer.weight.data = q @ r",
        "nn.utils.vector_to_parameters(best, layer.parameters())",
    ],
)
def test_what_may_lie_in_another_order(given: str) -> None:
    assert found(given) == "train.py:5"


@pytest.mark.parametrize(
    "given",
    [
        "layer.weight.data = layer.weight.data.clamp(-1, 1)",
        "layer.weight.data = 0.9 * layer.weight.data",
        "layer.weight.data.copy_(q)",
        "pass",
    ],
)
def test_what_lies_as_before(given: str) -> None:
    assert found(given) == ""


def test_what_comes_before_the_training_does_not_count() -> None:
    assert found("pass", "net.layer.weight.data = torch.linalg.qr(w).Q") == ""
