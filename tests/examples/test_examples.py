"""The examples are plain programs that run and learn."""

import ast
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RECIPES = ("remote_store", "tabular")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a script with arguments, as from a shell; gives what it printed."""

    def run(name: str, *arguments: object) -> list[str]:
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def losses(lines: list[str]) -> list[float]:
    return [float(line.split("loss ")[1].split(",")[0]) for line in lines]


def test_photos_learns_from_jpegs_that_it_writes_once(run, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    first = run("photos", "--data", photos, "--photos", 96, "--epochs", 3)
    assert len(list(photos.glob("*.jpg"))) == 96
    assert all(line.endswith(" samples/s") for line in first)
    assert losses(first)[-1] < losses(first)[0]
    written = {path: path.stat().st_mtime_ns for path in photos.iterdir()}
    run("photos", "--data", photos, "--photos", 96, "--epochs", 0)
    assert {path: path.stat().st_mtime_ns for path in photos.iterdir()} == written


def test_language_model_learns(run) -> None:
    lines = run("language_model", "--steps", 40, "--batch-size", 4)
    assert losses(lines)[-1] < losses(lines)[0]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_learns(name: str) -> None:
    torch.manual_seed(0)
    recipe = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    model = recipe["build_model"]()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    batch = next(iter(DataLoader(recipe["build_dataset"](), recipe["BATCH_SIZE"])))
    seen = []
    for _ in range(20):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    assert seen[-1] < seen[0] / 2


def loss_of(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    inputs, targets = batch
    outputs = model(inputs)
    if targets.is_floating_point():
        return torch.nn.functional.mse_loss(outputs, targets)
    return torch.nn.functional.cross_entropy(outputs, targets)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_validates_on_other_and_fewer_samples(name: str) -> None:
    recipe = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    training, validation = recipe["build_dataset"](), recipe["build_validation_dataset"]()
    assert len(validation) < len(training) / 5
    assert not torch.equal(validation[0][0], training[0][0])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_does_not_know_autotune(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] != "autotune"
        if isinstance(node, ast.Import):
            assert all(name.name.split(".")[0] != "autotune" for name in node.names)
