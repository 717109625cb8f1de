"""A fused optimizer is forbidden beside gradients that are turned, in whatever step."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.places import zero_grad_call
from autotune.source.program import parsed
from autotune.source.refusals.own_gradients import (
    cleared_ones_read,
    gradients_read,
    turned_gradients,
)

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
        ("net.weight.grad = found.t() @ a / 3", ""),  # a product is a new matrix
        ("self.grad = found.T", ""),  # what a hook keeps
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


READING = """\
def looked(p):
    change = torch.zeros_like(x).requires_grad_(True)
    LOOK

for x, y in loader:
    optimizer.zero_grad()
    loss_of(net(x), y).backward()
    BEFORE
    optimizer.step()
    AFTER
"""


@pytest.mark.parametrize(
    ("look", "before", "after", "line"),
    [
        ("return p.grad.detach().norm(2)", "print(looked(p))", "pass", ""),
        ("return p.grad.norm()", "pass", "print(looked(p))", "train.py:3"),
        ("return p.grad.norm()", "print(looked(p))", "print(looked(p))", "train.py:3"),
        ("return p.grad", "kept = looked(p)", "pass", "train.py:3"),
        ("pass", "kept = [p.grad.data for p in weights]", "pass", "train.py:8"),
        ("pass", "p.grad.mul_(0.5); norm = torch.norm(p.grad)", "pass", ""),
        ("pass", "pass", "print(p.grad.norm())", "train.py:10"),
        ("return change.grad.sign()", "pass", "pass", ""),  # of no weight
        ("return self.grad.mean()", "pass", "pass", ""),
        ("weights.append(change); return change.grad.sign()", "pass", "pass", "train.py:3"),
    ],
)
def test_gradients_that_are_read_when_a_step_may_have_written_into_them(
    look: str, before: str, after: str, line: str
) -> None:
    text = READING.replace("LOOK", look).replace("BEFORE", before).replace("AFTER", after)
    backward, step = (Place(path="/p/train.py", line=at) for at in (7, 9))
    places = Places(backward=backward, step=step)
    assert gradients_read(parsed({"/p/train.py": text}, places, "/p/train.py")) == line


CLEARING = """\
def looked(p):
    LOOK

for x, y in loader:
    FIRST
    loss_of(net(x), y).backward()
    BEFORE
    LAST
AFTER
"""


@pytest.mark.parametrize(
    ("look", "before", "after", "line"),
    [
        ("return p.grad.norm()", "pass", "looked(p)", "train.py:2"),
        ("return p.grad.norm()", "looked(p)", "pass", ""),
        ("pass", "print(p.grad)", "pass", ""),
        ("pass", "pass", "print(p.grad)", "train.py:9"),
        ("pass", "pass", "print(p.grad is None)", ""),
    ],
)
def test_gradients_that_are_read_when_they_are_cleared(
    look: str, before: str, after: str, line: str
) -> None:
    text = CLEARING.replace("LOOK", look).replace("BEFORE", before).replace("AFTER", after)
    for first, last, told in (("pass", "o.zero_grad()", line), ("o.zero_grad()", "pass", "")):
        told_of = text.replace("FIRST", first).replace("LAST", last)
        cleared = Place(path="/p/train.py", line=8 if first == "pass" else 5)
        places = Places(backward=Place(path="/p/train.py", line=6), zero_grad=cleared)
        program = parsed({"/p/train.py": told_of}, places, "/p/train.py")
        assert cleared_ones_read(program, zero_grad_call(program, "")) == told
