"""A fused optimizer is refused where weights get memory in another order while they train."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.own_state import relaid

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
LAST = Place(path="/p/train.py", line=12)


def found(given: str, before: str = "pass") -> str:
    text = TEXT.replace("GIVEN", given).replace("BEFORE", before)
    places = Places(backward=LAST, backwards=(LAST,))
    return relaid(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    "given",
    [
        "layer.weight.data = q * torch.sign(torch.diagonal(r))",
        "layer.weight.data = q",
        "layer.weight.data = layer.weight.T",
        "layer.weight.data = q @ r",
        "layer.weight.data = r * 2",
        "new = q * r; layer.weight.data = new",
        "layer.weight.data = given",
        "layer.weight.set_(q * 2)",
        "layer.weight.data.set_(q.untyped_storage(), 0, (3, 3), (1, 3))",
        "layer = layer.clamp(-1, 1); layer.weight.data = layer",
        "for w in given: w = w.float(); layer.weight.data = w",
        "layer.weight.data = bank.mean(0)",
        "torch.nn.utils.vector_to_parameters(row, layer.parameters())",
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
        "w = layer.weight; s = w.norm(); layer.weight.data = w / s",
        "w = 2 * layer.weight.detach(); w = w - 1; layer.weight.data = w",
        "layer.weight.set_(layer.weight.clone())",
        "pass",
    ],
)
def test_what_lies_as_before(given: str) -> None:
    assert found(given) == ""


def test_what_comes_before_the_training_does_not_count() -> None:
    assert found("pass", "net.layer.weight.data = torch.linalg.qr(w).Q") == ""


def test_what_is_outside_of_all_functions_is_followed_too() -> None:
    text = TEXT.replace("def project(layer):", "if True:").replace("GIVEN", "pass")
    text = text.replace("def main():", "if True:").replace("BEFORE", "pass")
    turned = text.replace("project(net.layer)", "net.weight.data = 2 * q")
    places = Places(backward=LAST, backwards=(LAST,))
    assert relaid(parsed({"/p/train.py": turned}, places, "/p/train.py")) == "train.py:14"
