"""A training that ends once its error is small is told from one that ends otherwise."""

import pytest

from autotune.source.edits import Autocast, Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.short_numbers import small_error
from tests.source.programs import rewritten

PROGRAM = """\
import sys
import torch

TOLERANCE = 1e-5
ROUGH = 0.05

def fit(model, optimizer, batches, args):
    best = previous = float("inf")
    losses, step = [], 0
    for epoch in range(500):
        total = 0.0
        for x, y in batches:
            loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {step}
        {epoch}
        previous = total
"""


def program(step: str = "pass", epoch: str = "pass", text: str = PROGRAM) -> str:
    return text.format(step=step, epoch=epoch)


def found(text: str) -> str:
    line = 1 + next(n for n, at in enumerate(text.splitlines()) if "loss.backward()" in at)
    places = Places(backward=Place(path="run.py", line=line))
    return small_error(parsed({"run.py": text}, places, "run.py"))


@pytest.mark.parametrize(
    "step",
    [
        "if loss.item() < 1e-6: break",
        "if 1e-6 > float(loss): return model",
        "if step > 10 and loss <= TOLERANCE: sys.exit()",
        "if loss < args.loss_tolerance: break",
        "if abs(loss.item() - previous) < args.tol: break",
        "if torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) < 1e-4: break",
    ],
)
def test_in_a_step(step: str) -> None:
    assert found(program(step)) == "run.py:17"


def test_of_an_epoch() -> None:
    assert found(program(epoch="if previous - total_loss < 1e-4: break")) == "run.py:18"
    text = program().replace("for epoch in range(500):", "while step < 9 and loss > TOLERANCE:")
    assert found(text) == "run.py:10"


@pytest.mark.parametrize(
    "step",
    [
        "pass",
        "if loss > 1e4: break",
        "if loss < 0.05: break",
        "if loss < ROUGH: break",
        "if loss < best: best = loss",
        "best = min(best, loss)\n            if loss < best: break",
        "if loss < min(losses): break",
        "if loss < losses[-1]: break",
        "if len(losses) < 1e-3: break",
        "if difficulty < 1e-3: break",
        "if loss < 1e-6: print('small')",
        "if optimizer.param_groups[0]['lr'] < 1e-6: break",
        "while loss > 0: break",
        "if args.loss_weight < 1e-6: break",
        "for number in range(3):\n                if loss < 1e-6: break",
    ],
)
def test_other_ends_are_none(step: str) -> None:
    assert not found(program(step))


@pytest.mark.parametrize(("default", "told"), [("1e-6", True), ("3.28", False)])
def test_an_option_is_as_small_as_it_is_by_default(default: str, told: bool) -> None:
    option = f"\nparser.add_argument('--target-loss', type=float, default={default})\n"
    assert bool(found(program("if loss < args.target_loss: break") + option)) is told


def test_of_a_while_the_other_way_round_is_none() -> None:
    assert not found(program().replace("for epoch in range(500):", "while loss < 1e-3:"))


def test_autocast_is_refused_there() -> None:
    text = program("if loss < 1e-6: break")
    edit = Autocast(device_type="cpu", dtype="bfloat16", scaled=False)
    (outcome,) = rewritten(text, edit).outcomes
    assert outcome.forbidden
    assert "may end at train.py:17 once what it computes" in outcome.reason
