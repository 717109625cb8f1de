"""What conditions read in the functions that a step is made in."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.source.options import without_left_out
from autotune.source.standing import Standing
from autotune.workload.conversation import Tell
from tests.workload.programs import run, seen_of, steps

PROGRAM = """\
import sys
import torch
from types import SimpleNamespace
from dataclasses import dataclass

TWICE = False
a = b = c = d = e = len

@dataclass
class Settings:
    mixup: bool = False
    late: object = None

    @property
    def asked(self):
        if sys._getframe(1).f_code.co_filename != __file__:
            raise SystemExit("it was asked by another")

def epoch_of(model, optimizer, batches, held_out, warm, settings, *, plain=None):
    count = 0
    for x, y in batches:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        count += 1
        if held_out is not None: a(())
        if warm: b(())
        if settings.mixup or settings.late or settings.asked: c(())
        if plain is None or count > 10 ** 6: d(())

class Trainer:
    def __init__(self, model):
        self.model, self.best, self.validate = model, 0, None

    def fit(self, batches, config):
        if config["rate"] == 0.5: token = config["token"]
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        settings = Settings()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 9)
        self.model.eval()
        for epoch in range(10 ** 6):
            if self.validate: e(())
            if config["name"] == "tiny" or config["token"] or config["absent"]: pass
            epoch_of(self.model, optimizer, batches, None, epoch < 3, settings)
            if self.best > 3 or TWICE: e(())
            if epoch > 8: self.best = epoch
            if epoch > 5: e(())
            if schedule.last_epoch > 5 or self.model.training: d(())

if TWICE: a(())
net = torch.nn.Linear(2, 1)
trainer = Trainer(net)
data = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(5)]
trainer.fit(data, {"rate": 0.5, "name": "tiny", "token": "".join(["q7x", "k9z"])})
if net is None: a(())
"""


def told(text: str, folder: Path) -> dict[int, Standing]:
    seen = seen_of(run(text, steps(3), Tell(), folder=folder))
    return {each.line: each for each in seen.standing}


def test_what_is_set_no_more_is_told_and_no_property_is_asked(tmp_path: Path) -> None:
    found = told(PROGRAM, tmp_path)
    lines = PROGRAM.splitlines()
    fit = found[lines.index("    def fit(self, batches, config):") + 1]
    step = found[next(i for i, each in enumerate(lines, 1) if each.startswith("def epoch_of"))]
    assert dict(fit.values) == {
        "TWICE": False,
        "config['name']": "tiny",
        "config['rate']": 0.5,
        "self.best": 0,
        "self.validate": None,
    }
    assert set(fit.there) == {"config", "config['token']", "schedule", "self", "self.model"}
    # It is called in a loop, which gives it another `warm` at some time.
    assert dict(step.values) == {
        "held_out": None,
        "plain": None,
        "settings.late": None,
        "settings.mixup": False,
    }
    assert "warm" not in {*dict(step.values), *step.there}
    assert found[0].there == ("net",) and dict(found[0].values) == {"TWICE": False}


def test_what_was_read_leaves_branches_out(tmp_path: Path) -> None:
    found = told(PROGRAM, tmp_path).values()
    path = next(iter(found)).path
    text = PROGRAM
    for name in "abcde":
        text = text.replace(f": {name}(())", f":\n{' ' * 20}{name}(())")
    left = without_left_out({path: text}, {}, (), _moved(found, text))[path]
    # `best` is set later, `warm`, what is asked of a property and what torch has
    # may be another at some time.
    assert [left.count(f"{name}(())") for name in "abcde"] == [0, 1, 1, 2, 2]
    # Called at another place, a function may be given something else there.
    assert (
        without_left_out({path: f"{text}epoch_of()\n"}, {}, (), _moved(found, text))[path].count(
            "a(())"
        )
        == 1
    )


def _moved(found: Iterable[Standing], text: str) -> list[Standing]:
    """As of `text`, in which the functions are on other lines."""
    own, others = PROGRAM.splitlines(), text.splitlines()
    lines = {0: 0} | {
        each.line: others.index(own[each.line - 1]) + 1 for each in found if each.line
    }
    return [replace(each, line=lines[each.line]) for each in found]


@pytest.mark.parametrize("asks", ["locals()", "eval('1')"])
def test_a_function_that_asks_for_its_variables_is_left_alone(asks: str, tmp_path: Path) -> None:
    text = PROGRAM.replace(
        "        settings = Settings()", f"        settings = Settings(); {asks}"
    )
    found = told(text, tmp_path)
    assert list(found) == [0]


GLOBALS = """\
import torch

net, turn, late, off = torch.nn.Linear(2, 1), 0, 0, None
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

def step():
    global late
    late += 1
    net(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    if turn > 5 or late > 5 or off: print()

for turn in range(10 ** 6):
    step()
    if late or off: print()
"""


def test_what_another_function_or_the_file_sets_does_not_stay(tmp_path: Path) -> None:
    found = told(GLOBALS, tmp_path)
    assert {line: dict(each.values) for line, each in found.items()} == {
        0: {"off": None},
        6: {"off": None},
    }
