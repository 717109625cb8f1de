"""What making a batch leaves behind is found where another part of the program reads it."""

from pathlib import Path

import pytest

from autotune.workload.read_back import read_back
from autotune.workload.target import load_target

READ = {
    "by the loop": ("loss = mix.lam * 2\n", "`mix.lam` (train.py:1)"),
    "of something inside it": ("mix.lam[0] = 1\n", "`mix.lam` (train.py:1)"),
    "the first of two": (
        "if all:\n    (mix.lam + 1) ** 2\nmix.lam\n",
        "`mix.lam` (train.py:2)",
    ),
    "of an object in a module": (
        "import mixing\nprint(mixing.mix.lam)\n",
        "`mixing.mix.lam` (train.py:2)",
    ),
    "of an object from a module": (
        "from mixing import mix\nprint(mix.lam)\n",
        "`mix.lam` (train.py:2)",
    ),
    "of the user's module": ("import mixing\nprint(mixing.lam)\n", ""),
    "of a library's object": ("from torch import nn\nprint(nn.lam)\n", ""),
    "by its own methods": ("class Mix:\n    def __call__(self, x): return self.lam\n", ""),
    "set": ("mix.lam = 1.0\n", ""),
    "a method of this name": ("optimizer.lam()\n", ""),
    "of a module": ("import numpy as np\nnp.lam\n", ""),
    "of a module inside one": ("import torch\ntorch.utils.lam\n", ""),
    "an option": ("given = args.lam, self.config.lam\n", ""),
    "another": ("mix.alpha\n", ""),
}


def test_what_tensors_have_too_is_none_of_a_dataset(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("print(x.shape, mix.lam)\n")
    target = load_target(file, ())
    assert read_back(target, ["dataset.shape"]) == ""
    assert read_back(target, ["dataset.shape", "dataset.lam"]) == "`mix.lam` (train.py:1)"


@pytest.mark.parametrize(("text", "place"), READ.values(), ids=READ)
def test_attributes_are_read_of_other_objects(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    (tmp_path / "mixing.py").write_text("")
    assert read_back(load_target(file), ["collate_fn.lam['a.b']", "count"]) == place


SETS = "lam = 1.0\ndef collate(batch):\n    global lam\n    lam = 0.5\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (SETS + "loss = lam * 2\n", "`lam` (train.py:5)"),
        (SETS + "def train(): return lam\n", "`lam` (train.py:5)"),
        (SETS + "def train(lam): return lam\n", ""),
        (SETS, ""),
        ("lam = []\ndef collate(batch):\n    lam.append(1)\nprint(lam)\n", ""),
    ],
)
def test_variables_are_read_where_they_are_not_set(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    assert read_back(load_target(file), ["lam"]) == place


def test_modules_that_the_program_imports_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text("\n\ndef loss(mix): return mix.lam\n")
    file = tmp_path / "train.py"
    file.write_text("from loop import loss\n")
    assert read_back(load_target(file), ["collate_fn.lam"]) == "`mix.lam` (loop.py:3)"
    assert not read_back(load_target(file), [])
