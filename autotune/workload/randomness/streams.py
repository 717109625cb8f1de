"""The streams of random numbers that a program draws from in this process, on the host."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

State = tuple[Any, torch.Tensor, Any]


def random_state() -> State:
    """Where Python's, torch's and numpy's streams are; numpy's only where the program uses it."""
    numpy: Any = sys.modules.get("numpy")
    numpys = numpy.random.get_state() if numpy is not None else None
    return random.getstate(), torch.get_rng_state(), numpys


def set_random_state(state: State) -> None:
    """Go on from there."""
    python, own, numpys = state
    random.setstate(python)
    torch.set_rng_state(own)
    if numpys is not None:
        numpy: Any = sys.modules["numpy"]
        numpy.random.set_state(numpys)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """What is drawn inside is not used up."""
    before = random_state()
    try:
        yield
    finally:
        set_random_state(before)
