"""autotune from Python: objects of the caller's are tuned elsewhere, and come back as they were."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autotune import api
from autotune.durations import parse_duration
from autotune.errors import UsageError
from autotune.outputs.document import write_document
from autotune.result import Result
from autotune.workload.program.target import load_target
from tests import builders

NOTEBOOK = """
import sys
import time
import torch
from torch import nn
import autotune

class Slow(torch.utils.data.Dataset):  # defined in __main__
    def __len__(self):
        return 640
    def __getitem__(self, index):
        time.sleep(0.004)
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return x, int(x[0] > 0)

model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
model.eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
weights = {name: value.clone() for name, value in model.state_dict().items()}
state = torch.get_rng_state()
trainer = autotune.tune(model, Slow(), optimizer=optimizer, batch_size=8, budget="20s", out="out")
assert torch.equal(state, torch.get_rng_state())
assert not model.training
assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
verdict = trainer.tuning.verdict
machine = ("too busy", "processors", "budget")
if verdict.outcome == "failed" and any(word in verdict.reason for word in machine):
    sys.exit("busy")
assert verdict.outcome == "faster", verdict
assert verdict.config["num_workers"] > 0
history = trainer.fit(1)
assert len(history.epoch_losses) == 1
again = autotune.Trainer.from_config("out/tuned.toml", model, Slow(), batch_size=8)
print("fine")
"""


@pytest.mark.slow
def test_objects_of_the_main_module_are_tuned_and_come_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    command = [sys.executable, "-W", "ignore", "notebook.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if ran.stderr.strip() == "busy":
        pytest.skip("other programs had the processors")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().endswith("fine")


def test_objects_may_come_from_a_file_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("def train(config):\n    print('trained', config)\n")
    made = "import pickle, sys, shapes; from autotune.api import _pickled; "
    made += "open('made', 'wb').write(_pickled(shapes.train))"
    (tmp_path / "script.py").write_text(made)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True)
    elsewhere = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))({'threads': 1})"
    command = [sys.executable, "-P", "-c", elsewhere, tmp_path / "made"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "trained {'threads': 1}\n"


def test_importing_autotune_loads_neither_torch_nor_optuna() -> None:
    code = "import autotune, sys; print(*{'torch', 'optuna', 'libcst'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("60s", 60), ("5m", 300), ("1h30m", 5400), ("2 min", 120), (45, 45), (0.5, 0.5)],
)
def test_lengths_of_time_are_read_as_people_write_them(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "-3s", 0, float("nan")])
def test_what_is_no_length_of_time_is_refused(text: str | float) -> None:
    with pytest.raises(UsageError, match="length of time"):
        parse_duration(text)


@pytest.mark.parametrize("arguments", [["--lr", 0.1], "--lr 0.1", None])
def test_what_are_no_arguments_is_refused(arguments: Any) -> None:
    with pytest.raises(UsageError, match="not a program's arguments"):
        load_target(__file__, arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": None}, "model is None, not a torch.nn.Module"),
        ({"dataset": None}, "the dataset is None, which has no length"),
        ({"optimizer": torch.optim.SGD}, "optimizer is the class SGD"),
        ({"clip_norm": -1.0}, "clip_norm is -1.0"),
        ({"seed": 2**70}, f"seed is {2**70}"),
    ],
)
def test_a_wrong_argument_is_said_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], said: str
) -> None:
    monkeypatch.delattr("autotune.api.flow.search_target")
    given = {"model": torch.nn.Linear(2, 2), "dataset": [0]} | arguments
    with pytest.raises(UsageError, match=said):
        api.tune(**given)


def test_a_profile_is_not_written_over_what_a_search_has_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def through(_target: object, _listener: object, options: Any, _stages: object) -> Result:
        folders.append(options.out)
        return builders.profile_result()

    folders: list[Path] = []
    monkeypatch.setattr("autotune.api.flow._through", through)
    write_document(builders.search_result(), tmp_path / "out" / "result.json")
    for folder in (tmp_path / "out", tmp_path / "other"):
        api.profile(__file__, out=folder, progress=False)
    assert folders == [tmp_path / "out" / "profile", tmp_path / "other"]


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(UsageError, match="not the name of a program"):
        load_target(None)  # type: ignore[arg-type]


def test_of_a_search_without_an_answer_tuning_warns() -> None:
    verdict = builders.verdict(outcome="failed", reason="The machine was too busy.")
    given: list[Any] = []

    def build(**settings: Any) -> Any:
        given.append(settings)
        return SimpleNamespace()

    with pytest.warns(UserWarning, match="no answer: The machine was too busy"):
        trainer = api._tuned(build, builders.search_result(verdict=verdict))
    assert given == [{"config": {}}] and trainer.tuning.verdict is verdict
