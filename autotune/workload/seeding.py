"""How a program seeds the workers of its loader."""

from collections.abc import Iterator
from types import CodeType
from typing import Any

# What gives a worker other numbers in each epoch: torch's own seed of it, of which some is drawn.
_EVERY_EPOCH = {"initial_seed"}
_OF_WORKER, _NUMBER = "get_worker_info", "id"
_GENERATORS = {"RandomState", "default_rng"}


def seeds_alike(worker_init_fn: Any) -> bool:
    """Whether workers that `worker_init_fn` sets up begin each epoch with the same random numbers:
    it seeds them, and not by what differs from epoch to epoch. Told by the names in its code.
    """
    names = {*_names(_code_of(worker_init_fn)), getattr(worker_init_fn, "__name__", "")}
    seeds = any("seed" in name for name in names - _EVERY_EPOCH) or bool(names & _GENERATORS)
    of_worker = _OF_WORKER in names and _NUMBER not in names
    return seeds and not of_worker and not names & _EVERY_EPOCH


def _code_of(function: Any) -> Any:
    while (inner := getattr(function, "func", None)) is not None:  # functools.partial
        function = inner
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code or getattr(vars(type(function)).get("__call__"), "__code__", None)


def _names(code: Any) -> Iterator[str]:
    if isinstance(code, CodeType):
        yield from code.co_names
        for constant in code.co_consts:
            yield from _names(constant)
