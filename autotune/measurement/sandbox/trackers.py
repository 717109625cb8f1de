"""Experiment trackers that a program points at a server in its own code: kept at home, as those are
that it leaves to the environment.
"""

import contextlib
import functools
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from autotune.measurement.sandbox.environment import MLFLOW_SERVER
from autotune.workload.system.imports import AfterImport
from autotune.workload.trackers import counted, note, noted

# How the methods of the Hub's client begin that change something there.
_CHANGING_THE_HUB = (
    *("create_", "upload_", "preupload_", "delete_", "update_", "move_", "add_"),
    *("super_squash", "sync_bucket", "batch_bucket", "run_job", "run_uv_job"),
)
# Distributions of a sweep whose numbers are exponents.
_EXPONENTS = ("log_uniform", "log_normal")


def keep_at_home() -> None:
    """From now on, trackers that this process imports send nothing away, whatever the program asks
    them for.
    """
    changes: dict[str, Callable[[Any], None]] = {
        "wandb": _disable_wandb,
        "neptune": functools.partial(_noted, "Neptune", "init_run"),
        "swanlab": functools.partial(_noted, "SwanLab", "init"),
        "mlflow": functools.partial(_keep_mlflow_local, os.environ.get("MLFLOW_TRACKING_URI")),
        "huggingface_hub.hf_api": _keep_models_at_home,
        "huggingface_hub.repository": _keep_clones_at_home,
    }
    sys.meta_path.insert(0, AfterImport(changes))


def _disable_wandb(wandb: Any) -> None:
    """`wandb.init(mode="online")` wins over the environment, and sweeps ask for no mode: what one
    starts is trained once here, with the first of each parameter's values.
    """
    init = getattr(wandb, "init", None)
    if init is None:  # a folder of that name, or a module of the user's
        return
    chosen: dict[str, Any] = {}

    def disabled(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("config") or {}
        if chosen and isinstance(given, dict):
            kwargs["config"] = {**given, **chosen}
        run = init(*args, **{**kwargs, "mode": "disabled"})
        if kwargs.get("mode") != "disabled":
            note("W&B")
            for owner in (run, wandb):
                _count("W&B", owner, "log")
        return run

    def sweep(sweep: Any, *_args: Any, **_kwargs: Any) -> str:
        given = sweep if isinstance(sweep, dict) else {}
        chosen.update(_first_values(given.get("parameters", {})))
        return "not-sent"

    def agent(*args: Any, **kwargs: Any) -> None:
        function = args[1] if len(args) > 1 else kwargs.get("function")
        if function is not None:
            function()

    wandb.init = disabled
    wandb.sweep, wandb.agent = sweep, agent


def _count(name: str, owner: Any, method: str) -> None:
    """Have the calls of a tracker's method counted."""
    log = getattr(owner, method, None)
    if log is not None and not hasattr(log, "_autotune_counted"):
        with contextlib.suppress(AttributeError, TypeError):
            setattr(owner, method, counted(name, log))


def _noted(name: str, start: str, module: Any) -> None:
    """Have it noted that the program starts a tracker."""
    if hasattr(module, start):
        setattr(module, start, noted(name, getattr(module, start)))


def _first_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each parameter of a sweep."""
    found: dict[str, Any] = {}
    for name, told in parameters.items():
        if "parameters" in told:
            found[name] = _first_values(told["parameters"])
        else:
            found[name] = _first_value(told)
    return found


def _first_value(told: Mapping[str, Any]) -> Any:
    """Of a list the first, of a range its lower end, of a distribution without one its mean."""
    if "value" in told or told.get("values"):
        return told.get("value", (told.get("values") or [None])[0])
    lowest = told.get("min", told.get("mu"))
    if str(told.get("distribution", "")).endswith(_EXPONENTS) and lowest is not None:
        return math.exp(lowest)  # such a range is one of exponents
    return lowest


def _keep_mlflow_local(home: str | None, mlflow: Any) -> None:
    """`set_tracking_uri` and a client's own address win over the environment, which the program may
    change before it imports mlflow: `home` is what it was.
    """
    if home and hasattr(mlflow, "set_tracking_uri"):
        mlflow.set_tracking_uri(home)
    for name in ("set_tracking_uri", "set_registry_uri"):
        for owner in (mlflow, getattr(mlflow, "tracking", None)):
            if hasattr(owner, name):
                setattr(owner, name, _ignored_address)
    client = getattr(mlflow, "MlflowClient", None)
    if client is None:
        return
    build = client.__init__

    def build_local(self: Any, *args: Any, **kwargs: Any) -> None:
        for address in (*args, *kwargs.values(), os.environ.get(MLFLOW_SERVER)):
            _ignored_address(address)
        build(self)  # its only arguments are addresses

    client.__init__ = build_local
    for method in ("log_metric", "log_batch"):
        _count("MLflow", client, method)


def _ignored_address(address: Any = None) -> None:
    """Another address is not taken; that of a server is noted."""
    text = str(address or "")
    remote = "://" in text and not text.startswith(("file:", "sqlite:"))
    if remote or text.startswith("databricks"):
        note("MLflow")


def _keep_models_at_home(hub: Any) -> None:
    """Nothing is made, changed or removed on the Hugging Face Hub; models and data still come."""
    api = getattr(hub, "HfApi", None)
    names = [name for name in vars(api or object) if name.startswith(_CHANGING_THE_HUB)]
    for name in names:
        unsent = functools.partial(_unsent, name == "create_repo")
        setattr(api, name, staticmethod(unsent))
        if hasattr(hub, name):  # the same, of an object that the module has made
            setattr(hub, name, unsent)


def _keep_clones_at_home(hub: Any) -> None:
    """Nothing is pulled or pushed by git (the Hub's client before 1.0)."""
    if hasattr(hub, "Repository"):
        hub.Repository = _Folder


class _Folder:
    """Stands in for a clone of a repository on the Hub: an ordinary folder."""

    def __init__(self, local_dir: str | os.PathLike[str], *_args: Any, **_kwargs: Any) -> None:
        self.local_dir = local_dir
        os.makedirs(local_dir, exist_ok=True)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _ignored

    def push_to_hub(self, *_args: Any, blocking: bool = True, **_kwargs: Any) -> Any:
        """What a push gives: where it went to, and how it goes on where nobody waits for it."""
        return "" if blocking else ("", SimpleNamespace(is_done=True))

    @contextmanager
    def commit(self, *_args: Any, **_kwargs: Any) -> Iterator["_Folder"]:
        """As the clone's: what is written inside lies in its folder."""
        with contextlib.chdir(self.local_dir):
            yield self


def _unsent(names_a_repo: bool, *args: Any, run_as_future: bool = False, **kwargs: Any) -> Any:
    """What the caller is given in the place of an answer from the Hub."""
    repo = kwargs.get("repo_id") or next((each for each in args if isinstance(each, str)), "")
    answer = SimpleNamespace(repo_id=repo, commit_url="", pr_url=None, oid="", url="")
    if not run_as_future or names_a_repo:
        return answer
    done: Future[Any] = Future()
    done.set_result(answer)
    return done


def _ignored(*_args: Any, **_kwargs: Any) -> None:
    """A call that does nothing."""
