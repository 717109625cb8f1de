"""Loops round whole trainings are told from those over the epochs of one."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.evaluation import evaluated
from autotune.source.loops.stages import later_stage
from autotune.source.program import Program, parsed

TEXT = """\
class Trainer:
    def train(self):
        for epoch in range(9):
            for x, y in self.loader:
                criterion(self.model(x), y).backward()
            EPOCH

    def test(self):
        with torch.no_grad():
            self.model.eval()
            score(self.model)


def train_one(model, epochs):
    Trainer(model).train()


OUTER
"""


def program(outer: str, epoch: str = "pass") -> Program:
    text = TEXT.replace("OUTER", outer).replace("EPOCH", epoch)
    place = Place(path="/p/run.py", line=5)
    places = Places(backward=place, backwards=(place,))
    return parsed({"/p/run.py": text}, places, "/p/run.py")


@pytest.mark.parametrize(
    ("outer", "found"),
    [
        (
            "trainer = Trainer()\nfor turn in range(9):\n    trainer.train()\n    trainer.test()",
            True,
        ),
        ("for turn in range(9):\n    t = Trainer()\n    t.train()\n    t.test()", False),
        ("t = Trainer()\nfor model in models:\n    train_one(model, 9)\n    t.test()", False),
        ("t = Trainer()\nfor epoch in range(9):\n    train_one(net, epoch)\n    t.test()", True),
        ("t = Trainer()\nwhile more():\n    x = next(it)\n    train_one(x, 9)\n    t.test()", True),
        ("for f in folds:\n    n = Net()\n    t = Trainer(n)\n    t.train()\n    t.test()", False),
        (
            "t = Trainer()\nfor f in fs:\n    n.apply(reset); train_one(n.parameters()); t.test()",
            False,
        ),
    ],
)
def test_what_comes_after_each_of_several_trainings_is_not_between_steps(
    outer: str, found: bool
) -> None:
    assert bool(evaluated(program(outer))) is found
    assert evaluated(program(outer, epoch="self.test()")).endswith(":10")


def test_an_option_is_not_how_far_a_training_has_come() -> None:
    staged = "if STEP > 4: self.loss = self.loss + spread(x); self.loss.backward()"
    assert later_stage(program("pass", staged.replace("STEP", "epoch"))) == "run.py:6"
    assert later_stage(program("pass", staged.replace("STEP", "self.global_step")))
    assert not later_stage(program("pass", staged.replace("STEP", "args.aug_step")))
