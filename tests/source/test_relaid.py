"""A fused optimizer is refused where weights get memory in another order while they train, and
channels last where they get what was one row of numbers.
"""

import pytest

from autotune.source.edits import ModelStatement, OptimizerArgument, Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.relaid import from_one_row, relaid
from tests.source.programs import rewritten, source

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


MODEL = source(
    """
    import torch
    from torch import nn, optim

    model = Net()ORDER
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        GIVEN
    """
)
IN_ONE_ROW = "nn.utils.vector_to_parameters(best, model.parameters())"
FUSED = OptimizerArgument(name="fused", code="True")
REORDERED = ModelStatement(
    code="{model}.to(memory_format=torch.channels_last)", imports=("import torch",), reordered=True
)


@pytest.mark.parametrize(
    ("order", "given", "statuses"),
    [
        ("", IN_ONE_ROW, ["refused", "done"]),
        (".to(memory_format=torch.channels_last)", IN_ONE_ROW, ["refused", "refused"]),
        ("", "pass", ["done", "done"]),
    ],
)
def test_weights_from_one_row_are_not_channels_last_beside_a_fused_optimizer(
    order: str, given: str, statuses: list[str]
) -> None:
    done = rewritten(MODEL.replace("ORDER", order).replace("GIVEN", given), REORDERED, FUSED)
    assert done.statuses == statuses
    if given == IN_ONE_ROW:
        [refused, *_] = [each.reason for each in done.outcomes if each.status == "refused"]
        assert "gives weights other memory at train.py:" in refused


def test_one_row_before_the_training_does_not_count() -> None:
    text = TEXT.replace("GIVEN", "pass").replace("BEFORE", "vector_to_parameters(v, net.weights)")
    places = Places(backward=LAST, backwards=(LAST,))
    assert from_one_row(parsed({"/p/train.py": text}, places, "/p/train.py")) == ""
