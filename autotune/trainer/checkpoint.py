"""Checkpoints: written whole or not at all, and refused with a reason."""

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autotune.errors import UsageError

FORMAT = "autotune.Trainer"
VERSION = 1


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write `state` to `path`, atomically.

    Raises:
        UsageError: it cannot be written there.
    """
    state = {"format": FORMAT, "version": VERSION, **state}
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def read_checkpoint(path: Path, *, trusted: bool) -> dict[str, Any]:
    """What `write_checkpoint` wrote; `trusted` also loads objects other than torch's own.

    Raises:
        UsageError: there is none, or it is not a Trainer's.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=not trusted)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except pickle.UnpicklingError as error:
        raise UsageError(
            f"{path} cannot be loaded: {str(error).splitlines()[0]}",
            "if you wrote the file yourself, load(path, trusted=True) loads all that is in it",
        ) from error
    except (RuntimeError, EOFError) as error:
        raise UsageError(f"{path} is not a checkpoint: {str(error).splitlines()[0]}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UsageError(f"{path} is not a checkpoint of a Trainer")
    if state["version"] != VERSION:
        raise UsageError(
            f"{path} is a checkpoint of version {state['version']}; this is version {VERSION}",
            "load it with the version of autotune that wrote it",
        )
    return state


def check_alike(
    path: str | os.PathLike[str], state: dict[str, Any], *, scheduled: bool, batch_size: int
) -> None:
    """Refuse a checkpoint that a training with these parts cannot go on from.

    Raises:
        UsageError: it is such a checkpoint.
    """
    if scheduled != (state["scheduler"] is not None):
        raise UsageError(
            f"{path} was saved {'without' if scheduled else 'with'} a scheduler",
            "build the Trainer with the same scheduler as the saved one",
        )
    if state["position"]["step"] and state["batch_size"] != batch_size:
        raise UsageError(
            f"{path} was saved within an epoch of batches of {state['batch_size']}",
            "build the Trainer with the same batch_size as the saved one",
        )


def load_states(
    path: str | os.PathLike[str],
    state: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Give `model` and `optimizer` their states; where they do not fit, `model` keeps its own.

    Raises:
        UsageError: they do not fit.
    """
    own = copy.deepcopy(model.state_dict())
    try:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    except (RuntimeError, ValueError, KeyError) as error:
        model.load_state_dict(own)  # torch has taken over what fits
        raise UsageError(
            f"{path} is a checkpoint of another model or optimizer: {error}",
            "build the Trainer with the same model and optimizer as the saved one",
        ) from error
