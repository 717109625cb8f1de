"""Which random numbers of the process samples are made with, by the user's functions."""

import dis
import random
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType
from typing import Any

from autotune.workload.samples.asked import variables
from autotune.workload.samples.kept import functions_of
from autotune.workload.samples.of_loader import pieces_to_read

# What the modules make that has random numbers of its own.
_OF_ITS_OWN = ("Random", "SystemRandom", "default_rng", "RandomState", "Generator", "SeedSequence")


def streams_of(loader: Any) -> tuple[str, ...]:
    """Of Python's ("random") and NumPy's ("numpy.random") those that the functions draw which make
    a DataLoader's batches.
    """
    functions = (
        each for piece in pieces_to_read(loader).values() for each in functions_of(piece.value)
    )
    found = {
        stream
        for code, around in functions
        for name in variables(code) & around.keys()
        for stream in _drawn(code, name, around[name])
    }
    return tuple(sorted(found))


def _drawn(code: CodeType, name: str, value: Any) -> Iterator[str]:
    numpy: Any = sys.modules.get("numpy")
    owner = getattr(value, "__self__", None)  # of `from random import random`
    module = value is random and _asks(code, name)
    if module or owner is _of_module(random.random):
        yield "random"
    if numpy is not None:
        own = owner is _of_module(numpy.random.rand)
        module = value is numpy.random and _asks(code, name)
        if own or module or (value is numpy and _asks(code, "random")):
            yield "numpy.random"


def _of_module(function: Any) -> Any:
    """What draws where a module is asked."""
    return function.__self__


def _asks(code: CodeType, name: str) -> bool:
    """Whether `code` asks `name` for more than random numbers of its own."""
    return any(
        each.argval == name and following.argval not in _OF_ITS_OWN
        for each, following in pairwise(dis.get_instructions(code))
        if each.opname.startswith("LOAD_") and following.opname.startswith("LOAD_")
    )
