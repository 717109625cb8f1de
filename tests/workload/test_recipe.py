"""Recipes: what is read from one, and the program that is written for it."""

import ast
import itertools
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from autotune.errors import UsageError
from autotune.source import rewrite
from autotune.source.edits import (
    Accumulate,
    Autocast,
    LoaderArgument,
    ModelStatement,
    NonBlockingCopies,
    OptimizerArgument,
    Place,
    Places,
    ProcessStatement,
)
from autotune.workload.program.recipe import inspect_recipe, standalone_program

SMALLEST = '''"""Nine numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model():
    return nn.Linear(3, 2)

def build_dataset():   # an odd   format is kept
    numbers = torch.arange(27.0).reshape(9, 3)
    return TensorDataset(numbers / 27, torch.arange(9) % 2)
'''

OPTIONAL = {
    "BATCH_SIZE": "BATCH_SIZE = 4\n",
    "build_validation_dataset": "def build_validation_dataset():\n    return build_dataset()\n",
    "build_optimizer": (
        "def build_optimizer(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"
    ),
    "training_step": (
        "def training_step(model, batch):\n"
        "    return nn.functional.cross_entropy(model(batch[0]), batch[1])\n"
    ),
    "collate": "def collate(samples):\n    return torch.utils.data.default_collate(samples)\n",
    "numpy": "import numpy as np\n\nNOISE = np.zeros(3)\n",
}

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program of a recipe with arguments, and gives what it printed."""

    def run_recipe(recipe: str, *arguments: str, as_it_is: bool = False) -> str:
        path = tmp_path / "training.py"
        text = recipe if as_it_is else standalone_program(recipe, "model.py", "model.py")
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", [str(path), "--device", "cpu", *arguments])
        capsys.readouterr()
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run_recipe


def losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^epoch.* loss ([\d.]+)", output, re.MULTILINE)]


def weights(checkpoint: Path) -> torch.Tensor:
    state = torch.load(checkpoint, weights_only=False)
    return torch.cat([value.flatten() for value in state["model"].values()])


def with_optional(*names: str) -> str:
    return SMALLEST + "".join(f"\n{OPTIONAL[name]}" for name in names)


def test_the_recipe_stands_at_the_top_as_it_was_written() -> None:
    program = standalone_program(SMALLEST, "model.py", "model.py")

    assert program.startswith(SMALLEST.rstrip() + "\n")


def test_a_program_trains_and_says_how_far_it_is(run: Run) -> None:
    output = run(SMALLEST, "--epochs", "2", "--batch-size", "2", "--log-every", "3")

    assert re.findall(r"epoch (\d)/2  step (\d)", output) == [
        ("1", "3"),
        ("1", "5"),
        ("2", "3"),
        ("2", "5"),
    ]
    assert "samples/s" in output


def test_the_same_seed_gives_the_same_losses(run: Run) -> None:
    recipe = with_optional("numpy")

    first = losses(run(recipe, "--epochs", "3", "--seed", "5"))

    assert first == losses(run(recipe, "--epochs", "3", "--seed", "5"))
    assert first != losses(run(recipe, "--epochs", "3", "--seed", "6"))


def test_every_part_that_a_recipe_offers_is_used(run: Run) -> None:
    output = run(with_optional(*OPTIONAL), "--epochs", "1")

    assert "step 3" in output  # 9 samples in batches of 4
    assert "validation loss" in output


def test_lines_end_as_the_recipe_s_own_do() -> None:
    program = standalone_program(SMALLEST.replace("\n", "\r\n"), "model.py", "model.py")

    assert program.count("\r\n") == program.count("\n")


@pytest.mark.parametrize("name", ["build_optimizer", "build_validation_dataset", "collate"])
def test_a_program_does_not_speak_of_what_its_recipe_does_not_offer(name: str) -> None:
    assert name not in standalone_program(SMALLEST, "model.py", "model.py")


def test_no_program_lacks_a_name_or_has_one_too_many(tmp_path: Path) -> None:
    for count in range(len(OPTIONAL) + 1):
        for names in itertools.combinations(OPTIONAL, count):
            program = standalone_program(with_optional(*names), "model.py", "model.py")
            assert "#:" not in program
            (tmp_path / f"program_{'_'.join(names)}.py").write_text(program)

    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout


def test_the_loop_is_plain_and_can_be_edited() -> None:
    program = standalone_program(SMALLEST, "model.py", "model.py")

    for line in (
        "for batch in loader:",
        "optimizer.zero_grad()",
        "loss = training_step(model, batch)",
        "loss.backward()",
        "optimizer.step()",
        "optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)",
    ):
        assert re.search(rf"^ +{re.escape(line)}$", program, re.MULTILINE), line


def test_every_edit_can_be_made_in_the_program_and_it_still_trains(run: Run) -> None:
    # A batch's parts would be collated one by one.
    offered = [each for each in OPTIONAL if each != "collate"]
    plain = standalone_program(with_optional(*offered), "model.py", "model.py")
    requests = (
        ProcessStatement(code="torch.set_num_threads(torch.get_num_threads())"),
        LoaderArgument(name="num_workers", code="1"),
        ModelStatement(code="{model}.to(memory_format=torch.channels_last)"),
        Autocast(device_type="cpu", dtype="bfloat16"),
        Accumulate(steps=2),
        NonBlockingCopies(),
        OptimizerArgument(name="fused", code="True"),
    )

    edited = rewrite({"t.py": plain}, [("", each) for each in requests], places(plain))

    assert {outcome.status for outcome in edited.outcomes} == {"done"}
    assert "step 5" in run(edited.sources["t.py"], "--epochs", "1", as_it_is=True)


def places(program: str) -> Places:
    """Where a run of the program would have been seen to do what edits change."""
    lines = program.splitlines()

    def place(text: str) -> Place:
        return Place(path="t.py", line=next(n for n, line in enumerate(lines, 1) if text in line))

    return Places(
        loader=place(" loader = DataLoader("),
        optimizer=place("optim.SGD("),
        forward=place("model(batch[0])"),
        backward=place("loss.backward()"),
        step=place("optimizer.step()"),
        zero_grad=place("optimizer.zero_grad()"),
        copies=(place("batch.to(device)"),),
    )


def test_a_resumed_program_ends_where_an_uninterrupted_one_does(run: Run, tmp_path: Path) -> None:
    recipe = with_optional("numpy", "build_validation_dataset").replace(
        "nn.Linear(3, 2)", "nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))"
    )
    whole, parts = tmp_path / "whole.pt", tmp_path / "deep" / "parts.pt"

    run(recipe, "--epochs", "4", "--checkpoint", str(whole))
    run(recipe, "--epochs", "2", "--checkpoint", str(parts))
    run(recipe, "--epochs", "4", "--checkpoint", str(parts), "--resume")

    assert torch.equal(weights(whole), weights(parts))
    assert [path.name for path in parts.parent.iterdir()] == ["parts.pt"]


def test_resuming_from_nowhere_is_refused(run: Run) -> None:
    with pytest.raises(SystemExit):
        run(SMALLEST, "--resume")


@pytest.mark.parametrize(
    ("data", "loss"),
    [
        ("TensorDataset(torch.ones(4, 3), torch.ones(4, dtype=torch.int32))", "cross entropy"),
        ("TensorDataset(torch.ones(4, 3), torch.ones(4, 2))", "mean squared error"),
        ("TensorDataset(torch.ones(4, 3), torch.ones(4, 2, dtype=torch.float64))", "of doubles"),
    ],
)
def test_the_loss_follows_from_the_targets(run: Run, data: str, loss: str) -> None:
    recipe = re.sub(r"return TensorDataset.*", f"return {data}", SMALLEST)

    assert len(losses(run(recipe, "--epochs", "1"))) == 1


def test_a_single_output_is_compared_with_its_own_target(run: Run) -> None:
    recipe = re.sub(
        r"return TensorDataset.*",
        "return TensorDataset(torch.zeros(2, 3), torch.ones(2))",
        SMALLEST,
    ).replace("nn.Linear(3, 2)", "nn.Linear(3, 1, bias=False)")

    assert losses(run(recipe, "--epochs", "1")) == [1.0]


def test_a_model_that_returns_its_loss_is_given_the_dict(run: Run) -> None:
    recipe = """
import torch
from types import SimpleNamespace

class Model(torch.nn.Linear):
    def forward(self, numbers, labels):
        return SimpleNamespace(loss=(super().forward(numbers) - labels).square().mean())

def build_model():
    return Model(3, 1)

def build_dataset():
    return [{"numbers": torch.ones(3), "labels": torch.zeros(1)}] * 5
"""

    assert len(losses(run(recipe, "--epochs", "2"))) == 2


def test_an_iterable_dataset_is_not_shuffled(run: Run) -> None:
    recipe = SMALLEST.replace("build_dataset", "all_samples") + (
        "\nclass Stream(torch.utils.data.IterableDataset):\n"
        "    def __iter__(self):\n        return iter(all_samples())\n"
        "\nbuild_dataset = Stream\n"
    )

    assert "step 3" in run(recipe, "--epochs", "1", "--batch-size", "4")


def test_a_named_tuple_reaches_the_training_step_as_one(run: Run) -> None:
    recipe = with_optional("training_step").replace("batch[0]", "batch.x").replace(
        "batch[1]", "batch.y"
    ) + (
        "\nimport collections\nPair = collections.namedtuple('Pair', 'x y')\n"
        "def collate(samples):\n"
        "    return Pair(*torch.utils.data.default_collate(samples))\n"
    )

    assert len(losses(run(recipe, "--epochs", "1"))) == 1


def test_names_that_the_recipe_has_taken_are_left_to_it(run: Run) -> None:
    recipe = SMALLEST + (
        "\nfrom random import random\nimport time as Path\n\n"
        "def main():\n    raise AssertionError\n\n"
        "def validate(): ...\ndef program_main(): ...\n\n"
        "class Progress: ...\n\n"
        "def training_step(model, batch):\n"
        "    assert random() < 1 and Path.time() > 0 and not isinstance(Progress, str)\n"
        "    return nn.functional.cross_entropy(model(batch[0]), batch[1])\n"
    )

    assert len(losses(run(recipe, "--epochs", "1"))) == 1


def test_imports_that_the_recipe_has_already_are_not_repeated() -> None:
    program = standalone_program(SMALLEST, "model.py", "model.py")

    assert program.count("import torch\n") == 1
    assert program.count("from torch import nn\n") == 1


def test_the_main_block_of_a_recipe_does_not_run(run: Run) -> None:
    block = '\nif __name__ == "__main__":\n    import argparse\n    raise AssertionError\n'

    assert losses(run(SMALLEST + block, "--epochs", "1"))
    assert "AssertionError" not in standalone_program(SMALLEST + block, "model.py", "model.py")
    assert losses(run(f"{SMALLEST}{block}else:\n    BATCH_SIZE = 3\n", "--epochs", "1"))


def test_any_line_of_a_recipe_keeps_its_number() -> None:
    recipe = with_optional(*OPTIONAL)
    program = standalone_program(recipe, "model.py", "model.py")

    before = {node.name: node.lineno for node in ast.parse(recipe).body if hasattr(node, "name")}
    after = {node.name: node.lineno for node in ast.parse(program).body if hasattr(node, "name")}
    assert before.items() <= after.items()


def test_what_a_recipe_offers_is_read_without_running_it() -> None:
    facts = inspect_recipe(with_optional("collate", "numpy") + "\nraise SystemExit\n", "model.py")

    assert facts.offers == {"build_model", "build_dataset", "collate"}
    assert facts.uses_numpy


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("def build_dataset(): ...", "model.py offers no build_model()"),
        ("from nets import build_model", "model.py offers no build_dataset()"),
        ("def build_model(:\n", "model.py line 1: it is not Python"),
        (f"{SMALLEST}\nbuild_model = 3", "model.py line 16: build_model must be a function"),
        (
            SMALLEST.replace("build_model()", "build_model(width)"),
            "line 9: build_model must be callable without arguments; it needs width",
        ),
        (
            SMALLEST.replace("build_model()", "build_model(*, width)"),
            "line 9: build_model must be callable without arguments; it needs width",
        ),
        (f"{SMALLEST}def collate(): ...", "must be callable as (samples); it takes none"),
        (f"{SMALLEST}async def collate(x): ...", "collate must be a plain function, not async"),
        (f"{SMALLEST}def training_step(batch): ...", "must be callable as (model, batch)"),
        (f"{SMALLEST}BATCH_SIZE = '8'", "BATCH_SIZE must be a positive whole number, not '8'"),
        (f"{SMALLEST}BATCH_SIZE = 0", "BATCH_SIZE must be a positive whole number, not 0"),
    ],
)
def test_a_module_that_is_no_recipe_is_refused_with_its_line(recipe: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        standalone_program(recipe, "model.py", "/somewhere/model.py")


@pytest.mark.parametrize(
    "line",
    [
        "build_model, build_dataset = nn.Identity, list",
        "build_model = nn.Identity",
        "BATCH_SIZE = 4 * 8",
        "def build_model(width=3, *layers, depth=2): ...",
        "class build_model(nn.Identity): ...",
        "def training_step(model, batch, scale=1): ...",
        "def collate(*samples): ...",
    ],
)
def test_a_recipe_may_define_its_parts_in_many_ways(line: str) -> None:
    assert inspect_recipe(f"{SMALLEST}\n{line}\n", "model.py").offers
