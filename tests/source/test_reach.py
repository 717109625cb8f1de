"""What calls reach is told by names: a method of that name is no function, nor the other way."""

import ast

import pytest

from autotune.source.edits import Places
from autotune.source.program import parsed
from autotune.source.reach import reached

TEXT = """\
import engine


def train(args):
    once()


def shuffle():
    mixed()


def forward(x):
    return self.net(model(x))


weights = critic.parameters()


class Trainer:
    def train(self):
        epoch()


class Deeper(Trainer):
    def __init__(self):
        super().__init__()


class Flat(Trainer):
    def __init__(self):
        flat()
"""


def called(code: str, *, strictly: bool) -> set[str]:
    """The functions, by name, that what `code` reaches calls by themselves."""
    program = parsed({"/p/train.py": TEXT}, Places(), "/p/train.py")
    found = reached(program, list(ast.parse(code).body), strictly=strictly)
    calls = (at for node in found for at in ast.walk(node) if isinstance(at, ast.Call))
    return {at.func.id for at in calls if isinstance(at.func, ast.Name)}


@pytest.mark.parametrize("strictly", [False, True])
@pytest.mark.parametrize(
    ("code", "reaches"),
    [
        ("self.train()", {"epoch"}),
        ("tuner.train(args)", {"epoch"}),
        ("tuner.train()", {"epoch"}),  # which nobody calls, or asks for weights
        ("engine.train()", {"once", "epoch"}),
        ("engine.train(args)", {"once", "epoch"}),
        ("train(args)", {"train", "once"}),
    ],
)
def test_what_is_called_of_an_object_is_a_method_and_of_a_module_a_function(
    code: str, reaches: set[str], strictly: bool
) -> None:
    assert called(code, strictly=strictly) >= reaches


@pytest.mark.parametrize("code", ["model.train()", "net.train(False)", "self.critic.train()"])
def test_strictly_a_model_that_is_set_to_train_calls_nothing(code: str) -> None:
    assert called(code, strictly=True) == set()
    assert called(code, strictly=False) == {"epoch"}


def test_strictly_methods_are_called_as_attributes() -> None:
    assert called("data.shuffle()", strictly=False) == {"mixed"}
    assert called("data.shuffle()", strictly=True) == set()
    assert called("shuffle()", strictly=True) == {"shuffle", "mixed"}
    assert called("run = trainer.train\nrun()", strictly=True) >= {"run"}


def test_strictly_a_base_is_built_where_its_class_does_that() -> None:
    text = TEXT.replace(
        "class Trainer:", "class Trainer:\n    def __init__(self):\n        base()\n"
    )
    program = parsed({"/p/train.py": text}, Places(), "/p/train.py")

    def built(name: str) -> bool:
        found = reached(program, [ast.parse(f"{name}()")], strictly=True)
        return any(isinstance(at, ast.ClassDef) and at.name == "Trainer" for at in found)

    assert built("Deeper") and not built("Flat")
