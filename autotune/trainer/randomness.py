"""The states of all the random numbers that a training process draws."""

import random
import sys
from typing import Any

import torch


def random_state() -> dict[str, Any]:
    """The states of Python's, numpy's (where it is in use), torch's and the GPUs' generators."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        algorithm, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (algorithm, keys.tolist(), *rest)
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Go on drawing from where `random_state` was called."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy as np

        np.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])
