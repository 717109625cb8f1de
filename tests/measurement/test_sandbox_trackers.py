"""Experiment trackers keep what they are told at home, whatever the program asks them for."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.measurement.sandbox import trackers
from autotune.measurement.workbench import Workbench
from autotune.workload import trackers as used
from autotune.workload.program.target import load_target
from autotune.workload.seen import SeenTracker
from tests.workload.programs import PLAIN

# As the libraries are made, as far as a program uses them to name a server.
LIBRARIES = {
    "wandb": (
        "def init(project=None, mode=None, config=None):\n    return config or mode\n"
        "def sweep(sweep, project=None):\n    raise RuntimeError('sent')\n"
        "def agent(sweep_id, function, count=1):\n    raise RuntimeError('sent')\n"
    ),
    "mlflow": (
        "uri = 'home'\n"
        "def set_tracking_uri(address):\n    global uri\n    uri = address\n"
        "class MlflowClient:\n"
        "    def __init__(self, tracking_uri=None):\n        self.uri = tracking_uri or uri\n"
        "    def log_metric(self, *told):\n        pass\n"
    ),
}


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The libraries, imported after trackers were told to stay at home."""
    for name, text in LIBRARIES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(used, "_calls", {})
    trackers.keep_at_home()
    yield {name: importlib.import_module(name) for name in LIBRARIES}
    for name in LIBRARIES:
        sys.modules.pop(name, None)


def test_a_mode_in_the_program_s_own_code_does_not_put_wandb_online(
    imported: dict[str, Any],
) -> None:
    assert imported["wandb"].init("project", mode="online") == "disabled"
    assert imported["wandb"].init() == "disabled"


def test_what_would_have_been_logged_is_counted_for_each_step(imported: dict[str, Any]) -> None:
    wandb, mlflow = imported["wandb"], imported["mlflow"]
    logged: list[int] = []
    assert used.trackers(1) == ()
    run = wandb.init(config=SimpleNamespace(log=logged.append))
    for step in range(4):
        run.log(step)
    assert used.trackers(2) == (SeenTracker(name="W&B", calls_per_step=2.0),)
    assert logged == [0, 1, 2, 3]
    mlflow.set_tracking_uri("file:///here")
    mlflow.MlflowClient().log_metric("loss", 1.0)
    assert len(used.trackers(2)) == 1
    mlflow.set_tracking_uri("http://server")
    mlflow.MlflowClient().log_metric("loss", 1.0)
    assert used.trackers(2)[1] == SeenTracker(name="MLflow", calls_per_step=0.5)


def test_a_tracker_that_the_program_itself_turns_off_is_none(imported: dict[str, Any]) -> None:
    imported["wandb"].init(mode="disabled")
    assert used.trackers(1) == ()


def test_a_sweep_trains_once_and_asks_no_server(imported: dict[str, Any]) -> None:
    wandb, trained = imported["wandb"], []
    parameters = {"lr": {"values": [0.1, 0.2]}, "m": {"parameters": {"w": {"value": 3}}}}
    sweep = wandb.sweep({"method": "grid", "parameters": {**parameters, "d": {"min": 0.0}}})
    wandb.agent(sweep, function=lambda: trained.append(wandb.init(config={"a": 1})), count=9)
    assert trained == [{"a": 1, "lr": 0.1, "m": {"w": 3}, "d": 0.0}]


def test_an_address_in_the_program_s_own_code_is_not_told_to_mlflow(
    imported: dict[str, Any],
) -> None:
    mlflow = imported["mlflow"]
    mlflow.set_tracking_uri("http://server")
    assert mlflow.uri == "home"
    assert mlflow.MlflowClient("http://server").uri == "home"
    assert mlflow.MlflowClient(tracking_uri="http://server").uri == "home"


def test_a_module_of_the_users_that_is_called_like_a_tracker_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb.py").write_text("mine = 1\n")
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    trackers.keep_at_home()

    module = importlib.import_module("wandb")
    sys.modules.pop("wandb")
    assert module.mine == 1 and not hasattr(module, "init")


RECORDED = """
import socket
def recorded(*_):
    print("connection tried", flush=True)
    raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = recorded
"""


@pytest.mark.usefixtures("lent_zygote")
@pytest.mark.parametrize(
    ("library", "start", "log"),
    [
        ("wandb", "wandb.init(project='p', mode='online')", "wandb.log({'loss': 1.0})"),
        (
            "mlflow",
            "mlflow.set_tracking_uri('http://127.0.0.1:9'); mlflow.set_experiment('p')",
            "mlflow.log_metric('loss', 1.0)",
        ),
        (
            "comet_ml",
            "experiment = comet_ml.Experiment(api_key='k' * 25, project_name='p')",
            "experiment.log_metric('loss', 1.0)",
        ),
    ],
)
def test_the_library_itself_reaches_for_no_network_and_leaves_no_file(
    tmp_path: Path, library: str, start: str, log: str
) -> None:
    pytest.importorskip(library)
    body = PLAIN.replace("        optimizer.step()", f"        optimizer.step(); {log}")
    (tmp_path / "train.py").write_text(f"import {library}\n{RECORDED}{start}\n{body}")

    with Workbench(load_target(tmp_path / "train.py")) as bench:
        run = bench.observe()
        run.window(0.0, steps=5)
        output = run.output()
        run.kill()

    assert "connection tried" not in output
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


HUB = """
class HfApi:
    def upload_folder(self, *, folder_path): raise RuntimeError("sent")
    def create_repo(self, repo_id): raise RuntimeError("sent")
    def snapshot_download(self, repo_id): return repo_id
api = HfApi()
upload_folder, create_repo = api.upload_folder, api.create_repo
snapshot_download = api.snapshot_download
"""


def test_nothing_is_sent_to_the_hub_and_models_still_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "huggingface_hub").mkdir()
    (tmp_path / "huggingface_hub" / "__init__.py").write_text("")
    (tmp_path / "huggingface_hub" / "hf_api.py").write_text(HUB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("huggingface_hub", "huggingface_hub.hf_api"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    trackers.keep_at_home()
    hub = importlib.import_module("huggingface_hub.hf_api")
    assert hub.create_repo("me/model").repo_id == "me/model"
    assert hub.HfApi().create_repo("me/model").repo_id == "me/model"
    assert hub.upload_folder(folder_path="out", run_as_future=True).done()
    assert hub.HfApi().upload_folder(folder_path="out").oid == ""
    assert hub.snapshot_download("me/model") == "me/model"
    for name in ("huggingface_hub", "huggingface_hub.hf_api"):
        sys.modules.pop(name)
