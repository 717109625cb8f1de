"""What the figures of the most that could be gained are of."""

import ast
from pathlib import Path

import pytest

from autotune import diagnosis
from autotune.diagnosis import Bottleneck
from autotune.outputs.bounds import if_gone


def gaining() -> set[Bottleneck]:
    """What `diagnosis` has findings of that may say how much mending it gains."""
    found = set[Bottleneck]()
    for path in Path(diagnosis.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Finding"), keywords=given):
                    told = {at.arg: ast.unparse(at.value) for at in given}
                    name = told["bottleneck"].removeprefix("Bottleneck.")
                    found |= {Bottleneck[name]} if told["max_gain"] != "None" else set()
    return found


def test_all_that_can_gain_says_without_what() -> None:
    assert gaining() == set(Bottleneck) - {Bottleneck.MEMORY}
    for bottleneck in gaining():
        assert if_gone(bottleneck).startswith("with")


def test_what_tells_no_gain_has_no_words_for_it() -> None:
    assert Bottleneck.MEMORY not in gaining()
    with pytest.raises(KeyError):
        if_gone(Bottleneck.MEMORY)
