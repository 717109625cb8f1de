"""Loaders that a training has not built yet are told from those that are not its own."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.later import later_loader
from autotune.source.program import parsed

PROGRAM = """\
from torch.utils.data import DataLoader

def course(args):
    short = DataLoader(words(), batch_size=12)
    for _ in range(8):
        yield short
    {later}

def train(model, optimizer, args):
    for number, batches in enumerate(course(args)):
        for x, y in batches:
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        {epoch}

{function}
"""


def found(*, later: str = "pass", epoch: str = "pass", function: str = "") -> str:
    text = PROGRAM.format(later=later, epoch=epoch, function=function)
    backward, built = Place(path="run.py", line=12), Place(path="run.py", line=4)
    places = Places(backward=backward, backwards=(backward,))
    return later_loader(parsed({"run.py": text}, places, "run.py"), (built,))


def test_a_loader_that_comes_after_that_which_trains_is_found() -> None:
    assert found() == ""
    assert found(later="yield DataLoader(sentences(), batch_size=12)") == "run.py:7"
    assert found(epoch="batches = grown(number)", function=GROWN) == "run.py:18"


@pytest.mark.parametrize(
    "later",
    [
        "if args.long: yield DataLoader(sentences(), batch_size=12)",
        "yield Loader(sentences())",
        "yield DataLoader(val_words())",
    ],
)
def test_what_may_be_of_another_configuration_or_is_held_out_is_not(later: str) -> None:
    assert found(later=later) == ""


@pytest.mark.parametrize("name", ["evaluate", "test_it"])
def test_what_is_built_to_evaluate_trains_nothing(name: str) -> None:
    assert found(epoch=f"{name}(number)", function=GROWN.replace("grown", name)) == ""


@pytest.mark.parametrize(
    ("ends", "line"),
    [("total = sum(map(hits, data)); return total", ""), ("return data", "run.py:19")],
)
def test_what_is_drawn_from_without_gradients_trains_nothing(ends: str, line: str) -> None:
    function = f"@torch.no_grad()\n{GROWN.replace('return data', ends)}"
    assert found(epoch="f1 = grown(number)", function=function) == line


def test_the_loader_that_another_class_builds_in_its_method_of_that_name_is_none() -> None:
    feed = "class {}:\n    def feed(self):\n        made = DataLoader({}())\n        return made\n"
    text = (
        feed.format("Short", "words")
        + feed.format("Long", "sentences")
        + "for epoch in range(9):\n"
        "    for x in KINDS[args.kind]().feed():\n"
        "        loss(x).backward()\n        optimizer.step()\n"
    )
    backward, built = Place(path="run.py", line=11), Place(path="run.py", line=3)
    places = Places(backward=backward, backwards=(backward,))
    assert later_loader(parsed({"run.py": text}, places, "run.py"), (built,)) == ""
    assert later_loader(parsed({"run.py": text}, places, "run.py"), ()) == "run.py:3"


def test_the_training_of_another_model_is_another() -> None:
    other = "def eval(model):\n    DataLoader(words()); model.loss.backward()"
    assert found(function=other) == ""


GROWN = """\
def grown(number):
    data = DataLoader(words(number), batch_size=12)
    return data
"""
