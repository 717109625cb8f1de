"""A fused optimizer is forbidden beside gradients that are turned, in whatever step."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.own_gradients import turned_gradients

TEXT = """\
def orthogonal(gradient):
    return gradient / gradient.norm()


def turned(gradient):
    x = gradient.T if gradient.size(0) > gradient.size(1) else gradient
    return x / x.norm()


for step, (x, y) in enumerate(loader):
    loss_of(net(x), y).backward()
    found = net.weight.grad.permute(1, 0)
    STEP
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ("pass", ""),
        ("net.weight.grad = None", ""),
        ("net.weight.grad = orthogonal(net.weight.grad)", ""),
        ("if step > 900: net.weight.grad = turned(net.weight.grad)", "train.py:13"),
        ("net.weight.grad = found * 2", "train.py:13"),
        ("net.weight.grad.copy_(turned(net.weight.grad))", ""),  # into what lies as it did
        ("other = turned(net.weight.grad)", ""),
        ("if step > 900: net.weight.grad = torch.linalg.solve(a, net.weight.grad)", "train.py:13"),
        ("net.weight.grad.data = cholesky_solve(net.weight.grad, a)", "train.py:13"),
        ("net.weight.grad = a @ net.weight.grad", ""),
        ("for p, g in zip(weights, [turned(each) for each in all]): p.grad = g", "train.py:13"),
        ("a, b = torch.linalg.qr(found); net.weight.grad = a", "train.py:13"),
        ("for p in net.parameters(): p.grad = orthogonal(p.grad)", ""),
        ("other = torch.linalg.solve(a, net.weight.grad)", ""),
    ],
)
def test_gradients_of_its_own(step: str, place: str) -> None:
    places = Places(backward=Place(path="/p/train.py", line=11))
    program = parsed({"/p/train.py": TEXT.replace("STEP", step)}, places, "/p/train.py")
    assert turned_gradients(program) == place
