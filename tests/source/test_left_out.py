"""Gradients are not freed where a later step may leave out a part of the model."""

import pytest

from autotune.source.edits import Place, Places, ZeroGradToNone
from autotune.source.program import parsed
from autotune.source.refusals.left_out import left_out
from tests.source.programs import rewritten

TEXT = """\
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self, depth, wide=False):
        super().__init__()
        self.depth, self.drop, self.wide = depth, 0.0, wide
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.head = nn.Linear(8, 1)

    def forward(self, x, shallow=False, level=0):
        for index, block in enumerate(self.blocks):
            x = block(x)
        FORWARD
        return self.head(x)


net = Net(4)
optimizer = torch.optim.AdamW(net.parameters())
average = 1.0
for step, (x, y) in enumerate(loader):
    loss = F.mse_loss(net(x, level=step // 1000), y)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    average = 0.9 * average + 0.1 * loss.item()
    AFTER
"""
DROPS = "if average < 0.3:\n        net.drop = 0.4"
ADDS = "if self.drop > 0.1:\n            x = self.head(x)"


def place(forward: str, after: str = "pass") -> str:
    """Where a program with these statements may leave out a part of its model."""
    return place_in(TEXT.replace("FORWARD", forward).replace("AFTER", after))


def place_in(text: str) -> str:
    """Where the program of `text` may."""
    line = 1 + text[: text.index(".backward()")].count("\n")
    places = Places(backward=Place(path="/p/train.py", line=line))
    return left_out(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    "forward",
    [
        ADDS,
        "x = self.head(x) if self.drop > 0.1 else x",
        "if self.drop > 0.1:\n            return x",
        "for block in self.blocks:\n            if torch.rand(1) < 0.001: continue",
        "for block in self.blocks[: self.drop]: x = block(x)",
        "for at in range(self.drop): x = self.blocks[at](x)",
        "if level > 3: x = self.head(x)",  # as the loop says
        "if x.size(1) > 512: x = self.head(x)",
        "x = {s: self.blocks[s](x[shop == s]) for s in shop.unique().tolist()}",
        "for s in shop.unique().tolist(): x = self.blocks[s](x)",
        "x = self.blocks[level](x)",
        "x = sum(self.blocks[at](x) for at in level)",  # those of the task at hand
        "for at in self.drop: x = self.blocks[at](x)",
        "most = x.abs().max()\n        if most > 9: x = self.head(x)",
    ],
)
def test_left_out_later(forward: str) -> None:
    assert place(forward, DROPS).startswith("train.py:")


@pytest.mark.parametrize(
    "forward",
    [
        "pass",
        "if self.wide: x = self.head(x)",  # for good
        "if self.training: x = self.head(x)",
        "if self.head is not None: x = self.head(x)",
        "if shallow: x = self.head(x)",  # which nobody gives
        "if isinstance(x, list): x = self.head(x)",
        "if self.drop > 0.1: print('deep')",
        "for block in self.blocks[: self.depth]: x = block(x)",
        "for at in range(len(self.blocks)): x = self.blocks[at](x)",
        "for at in range(x.size(1)): x = self.head(x)",  # the same at each turn
        "x = self.blocks[0](x) + self.blocks[-1](x)",
        "x = sum(self.blocks[at](x) for at in range(self.depth))",
        "for at in self.order: x = self.blocks[at](x)",
        "for at in reversed(range(self.depth)): x = self.blocks[at](x)",
    ],
)
def test_none_left_out(forward: str) -> None:
    assert place(forward, DROPS) == ""


def test_what_nothing_sets_stays() -> None:
    assert place(ADDS) == ""


def test_a_part_of_the_loss_that_comes_and_goes() -> None:
    loss = "loss = F.mse_loss(net(x, level=step // 1000), y)"
    later = TEXT.replace(loss, f"{loss}\n    if average < 0.3: loss = loss + extra(x)")
    assert place_in(later) == "train.py:22"
    assert place_in(later.replace("average < 0.3", "use_extra")) == ""
    of_phase = later.replace("average < 0.3", "step > 9").replace(
        "    loss.backward()", "    if step > 9: loss.backward()"
    )
    assert place_in(of_phase) == ""


def test_such_gradients_are_not_freed() -> None:
    text = TEXT.replace("FORWARD", ADDS).replace("AFTER", DROPS)
    made = rewritten(text, ZeroGradToNone())
    assert made.text == text
    assert "left out in later steps (train.py:13)" in made.reason
    assert made.outcomes[0].forbidden
    assert rewritten(text.replace("net.drop = 0.4", "pass"), ZeroGradToNone()).statuses == ["done"]


def test_a_module_without_a_forward_pass_may_leave_out_a_part() -> None:
    text = """\
class Heads(nn.Module):
    def losses(self, x, y, depot):
        for key in DEPOTS:
            mine = (depot == key).nonzero().flatten()
            if len(mine):
                yield F.cross_entropy(self.heads[key](x[mine]), y[mine])

for x, y, depot in loader:
    optimizer.zero_grad(set_to_none=False)
    total = 0.0
    for loss in model.losses(x, y, depot):
        total = total + loss
    total.backward()
    optimizer.step()
"""
    assert place_in(text) == "train.py:5"
    always = text.replace("            if len(mine):\n    ", "")
    assert place_in(always) == ""
