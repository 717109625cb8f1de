"""What a training did not come to is told where it may come to it, and does something there."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.not_come_to import in_words, not_come_to
from autotune.source.program import Program, parsed

PROGRAM = """\
import torch

def train(model, loader, optimizer, epoch, args, best=None):
    for step, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {step}
            {what}
    return loss.item()

def main(args):
    bad, model = 0, build()
    for epoch in range(args.epochs):
        if train(model, loader, optimizer, epoch, args) > 1:
            bad += 1
"""


def program(step: str, what: str) -> Program:
    text = PROGRAM.format(step=step, what=what)
    line = 1 + next(at for at, each in enumerate(text.splitlines()) if "loss.backward()" in each)
    place = Place(path="run.py", line=line)
    return parsed({"run.py": text}, Places(backward=place, backwards=(place,)), "run.py")


def found(step: str, what: str = "optimizer.add_param_group(later)") -> str:
    return in_words(not_come_to(program(step, what), [Place(path="run.py", line=10)]))


@pytest.mark.parametrize(
    "step",
    [
        "if epoch > 60:",
        "if step == 1000 and args.thaw:",
        "if loss.item() < 0.1:",
        "if not torch.isfinite(loss):",
        "if is_flat(loss):",
        "if best is not None and epoch >= 20:",
        "if not (model.training and step > 1000):",
    ],
)
def test_a_condition_that_the_training_moves(step: str) -> None:
    assert found(step) == f"run.py:10 (under `{step[3:-1]}`)"


@pytest.mark.parametrize(
    "step",
    ["if args.thaw:", "if best is None:", "if x.shape[0] > 9:", "if model.training:", "if 1 > 2:"],
)
def test_one_that_stays_as_it_is_is_not_told(step: str) -> None:
    assert found(step) == ""


@pytest.mark.parametrize(
    "what", ["pass", "print(loss)", "break", "raise ValueError", "log.info(1)", "return loss"]
)
def test_what_does_nothing_to_the_training_is_not_told(what: str) -> None:
    assert found("if epoch > 60:", what) == ""


def test_what_follows_a_return_is_told_by_its_condition() -> None:
    text = program("if epoch < 60:", "continue\n        thaw(model)")
    place = Place(path="run.py", line=11)
    assert not_come_to(text, [place]) == [("run.py:11", "unless `epoch < 60`")]


def test_three_are_named() -> None:
    kinds = "\n        ".join(f"if epoch > {number}:\n            thaw(model)" for number in "1234")
    places = [Place(path="run.py", line=line) for line in range(10, 18)]
    said = in_words(not_come_to(program(kinds, "pass"), places))
    assert said.count("run.py") == 3 and said.endswith(", and 1 more")


def test_what_is_elsewhere_is_not_told() -> None:
    assert not not_come_to(program("if epoch > 60:", "thaw()"), [Place(path="x.py", line=10)])
