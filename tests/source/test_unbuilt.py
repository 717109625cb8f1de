"""Methods of classes that no object is made of are not what comes later."""

import pytest

from autotune.source.edits import Place
from autotune.source.options.unbuilt import without_unbuilt

TRAINERS = """import torch


class Pretrainer:
    def train(self):
        self.step()


class Finetuner(torch.nn.Module):
    def train(self):
        self.evaluate(Finetuner)

    def evaluate(self, _):
        torch.no_grad()
"""
MAIN = "from trainers import Finetuner, Pretrainer\n\nPretrainer().train()\n"


def built(main: str, trainers: str = TRAINERS, *lines: int) -> bool:
    """Whether what `Finetuner` does is left in the text."""
    places = [None, *(Place(path="/trainers.py", line=line) for line in lines)]
    found = without_unbuilt({"/main.py": main, "/trainers.py": trainers}, places)
    assert found["/main.py"] == main and "self.step()" in found["/trainers.py"]
    assert found["/trainers.py"].count("\n") == trainers.count("\n")
    compile(found["/trainers.py"], "trainers.py", "exec")
    return "self.evaluate" in found["/trainers.py"]


def test_a_class_that_is_imported_alone_is_left_out() -> None:
    assert not built(MAIN)


@pytest.mark.parametrize(
    "more",
    [
        "Finetuner().train()\n",
        "import trainers\ntrainers.Finetuner().train()\n",
        "class Other(Finetuner):\n    pass\n\nOther()\n",
        "made = {'Finetuner': 1}\n",
        "made = getattr(trainers, name)()\n",
        "made = globals()[name]()\n",
        "made = vars(trainers).get(name)()\n",
        "made = eval(name)()\n",
        "made = hydra.utils.instantiate(options)\n",
        "table = globals()\nmade = table[name]()\n",
        "made = trainers.__dict__.get(name)()\n",
        "from operator import attrgetter as of\nmade = of(name)(trainers)()\n",
        "from importlib import import_module as load\n",
        "class Base(metaclass=Registry):\n    pass\n",
    ],
)
def test_a_class_that_is_named_or_may_be_found_is_built(more: str) -> None:
    assert built(MAIN + more)


def test_a_class_of_which_only_others_are_made_that_are_not_built_is_left_out() -> None:
    assert not built(MAIN, f"{TRAINERS}\n\nclass Other(Finetuner):\n    def train(self): ...\n")
    assert not built(MAIN, TRAINERS.replace("import torch", '"""Of a Finetuner."""\nimport torch'))


def test_a_class_that_is_decorated_or_was_come_to_is_built() -> None:
    assert built(MAIN, TRAINERS.replace("class Fine", "@register\nclass Fine"))
    assert built(MAIN, TRAINERS, 11)
    assert not built(MAIN, TRAINERS, 6)


def test_what_only_sounds_like_finding_one_finds_none() -> None:
    assert not built(f"{MAIN}model.eval()\nprint(vars(args), getattr(args, 'eval'))\n")
