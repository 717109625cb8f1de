"""Micro-batches where a part of the loss comes only later, which no comparison has seen."""

import textwrap

import pytest

from autotune.source.edits import Accumulate
from tests.source.programs import rewritten, source

TWO = Accumulate(steps=2)
STEPS = """\
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
{lines}
        loss.backward()
        optimizer.step()
"""
IN_ONE_FILE = f"""
import torch

loader = DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(9):
{STEPS}"""
IN_A_FUNCTION = f"""
import torch

def train(model, loader, optimizer, epoch, args):
{STEPS}
def main(args):
    args.cuda = not args.no_cuda
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for epoch in range(9):
        train(model, loader, optimizer, epoch, args)
        validate(model, epoch)
"""

LATE = {
    "from an epoch on": "if epoch >= 5:\n    loss = loss + spread(out)",
    "in its place": "if epoch < 5:\n    loss = spread(out)\nelse:\n    loss = loss * 2",
    "in a choice": "loss = loss + (spread(out) if epoch > 3 else 0)",
    "in a part of it": "aux = 0\nif epoch > 3:\n    aux = spread(out)\nloss += 0.1 * aux",
    "in a list": "all = [loss]\nif epoch in late:\n    all.append(spread(out))\nloss = sum(all)",
    "under a name": "warm = epoch < 5\nif not warm:\n    loss += spread(out)",
    "in a table": "if shares.get(epoch):\n    loss += spread(out)",
    "by chance": "if random.random() < 0.5:\n    loss += spread(out)",
    "by the batch": "if mask.any():\n    loss += spread(out[mask])",
    "by how many there are": "rare = (y == 3).nonzero()\nif len(rare):\n    loss += spread(out)",
    "by what is chosen": "rare = out[y == 3]\nif len(rare):\n    loss += spread(rare)",
    "where it is finite": "if epoch > 5 and torch.isfinite(out).all():\n    loss += spread(out)",
    "its weight": "share = 0.0\nif epoch > 5:\n    share = 0.1\nloss = loss + share * spread(out)",
}
ALWAYS = {
    "an option": "if args.cuda:\n    loss = loss + spread(out)",
    "a choice by an option": "loss = loss / 4 if args.mean else loss",
    "a module that there may be": "if args.aux is not None:\n    loss = loss + args.aux(out)",
    "what the model gives": "if isinstance(out, tuple):\n    loss = loss + out[1]",
    "how many there are in a list": "if len(out) > 1:\n    loss = loss + out[1]",
    "what is in the output": "if 'aux' in out:\n    loss = loss + out['aux']",
    "the first of several": (
        "for i, part in enumerate(out):\n    if i == 0:\n        loss = criterion(part, y)\n"
        "    else:\n        loss = loss + criterion(part, y)"
    ),
    "a step that is left out": "if not torch.isfinite(loss).all():\n    loss = loss * 0",
    "a scaler": "if scaler is not None:\n    loss = scaler.scale(loss)",
    "what the options say": "if args.get('aux', 0) > 0:\n    loss = loss + args.aux * spread(out)",
    "a name": "if args.name.lower().startswith('l1'):\n    loss = spread(out)",
    "one for each GPU": "if loss.dim() > 0:\n    loss = loss.mean()",
    "of one for each GPU": "loss = loss.mean() if loss.ndim else loss",
    "what is printed": "if epoch % 2 == 0:\n    print(loss.item())",
    "what is kept": "if epoch == 0:\n    history.append(loss.item())",
    "what the loss is not made of": "if epoch > 3:\n    shown = spread(out)",
}


def changed(program: str, lines: str) -> str:
    return source(program.format(lines=textwrap.indent(lines, " " * 8)))


@pytest.mark.parametrize("program", [IN_ONE_FILE, IN_A_FUNCTION])
@pytest.mark.parametrize("lines", LATE.values(), ids=LATE)
def test_a_part_of_the_loss_that_may_come_later_is_not_divided(program: str, lines: str) -> None:
    text = changed(program, lines)
    done = rewritten(text, TWO)
    assert done.statuses == ["refused"]
    signs = ("if epoch", "if shares", "if not warm", "if random", "if mask", "if len")
    line = next(n for n, at in enumerate(text.splitlines(), 1) if any(s in at for s in signs))
    assert f"the condition at train.py:{line} may change the loss later" in done.reason


@pytest.mark.parametrize("program", [IN_ONE_FILE, IN_A_FUNCTION])
@pytest.mark.parametrize("lines", ALWAYS.values(), ids=ALWAYS)
def test_what_each_step_does_alike_or_does_not_to_the_loss_is_divided(
    program: str, lines: str
) -> None:
    done = rewritten(changed(program, lines), TWO)
    assert done.statuses == ["done"], done.reason


SWITCHED = """
import torch

class Trainer:
    def __init__(self, options):
        self.options, self.late = options, False

    {method}

    def train(self, loader):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            if self.late:
                loss = loss + spread(x)
            loss.backward()
            optimizer.step()

loader = DataLoader(data, batch_size=8, shuffle=True)
"""


@pytest.mark.parametrize(
    ("method", "status"),
    [
        ("def switch(self): self.late = True", "refused"),
        ("def setup(self): self.late = True", "done"),
        ("def show(self): print(self.late)", "done"),
    ],
)
def test_a_switch_that_a_method_sets_may_come_later(method: str, status: str) -> None:
    assert rewritten(source(SWITCHED.format(method=method)), TWO).statuses == [status]


def test_a_switch_that_another_function_shares_may_come_later() -> None:
    text = changed(IN_ONE_FILE, "if late:\n    loss += spread(out)")
    assert rewritten(text, TWO).statuses == ["done"]
    text += "def begin():\n    global late\n    late = True\n"
    assert rewritten(text, TWO).statuses == ["refused"]
