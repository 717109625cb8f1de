"""What a source offers, and where things lie in it."""

import pytest

from autotune.source import missing_from_recipe
from autotune.source.script import Script


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("def build_model(): ...\ndef build_dataset(): ...\n", True),
        ("from parts import make as build_model, build_dataset\n", True),
        ("build_model = Net\nasync def build_dataset(): ...\n", True),
        ("def build_model(): ...\n", False),
        ("class A:\n    def build_model(self): ...\n    def build_dataset(self): ...\n", False),
        ("def broken(:\n", False),
        ("nul = '\0'\n", False),
        ("", False),
    ],
)
def test_a_recipe_offers_a_model_and_a_dataset(text: str, answer: bool) -> None:
    assert (not missing_from_recipe(text)) is answer


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_node_is_found_in_the_text_again(end: str) -> None:
    text = end.join(['a = "é" + b(', "\x0c    'ü', c)", "# end"])
    script = Script("/p/a.py", text)
    assignment = script.tree.body[0]
    assert script.code(assignment) == end.join(['a = "é" + b(', "\x0c    'ü', c)"])
    assert script.newline == end


def test_names_are_read_through_imports() -> None:
    script = Script(
        "/p/a.py", "import torch.nn as nn\nfrom torch import optim as o\nx = o.SGD(nn.a)\n"
    )
    call = script.binds("x")[0]
    assert "torch.optim.SGD" in script.meaning(call)
    assert "torch.nn.a" in script.meaning(call)
    assert script.torch_name() is None
