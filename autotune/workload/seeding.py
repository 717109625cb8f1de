"""How a program seeds the workers of its loader."""

import dis
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

# What gives a worker other numbers in each epoch: torch's own seed of it, of which some is drawn,
# the time, the system's chance, the number of its process.
_EVERY_EPOCH = {
    *("initial_seed", "time", "time_ns", "monotonic", "perf_counter"),
    *("urandom", "getpid", "uuid4", "token_bytes"),
}
_OF_WORKER, _NUMBER, _SEED = "get_worker_info", "id", "seed"
_GENERATORS = {"RandomState", "default_rng", "Random", "Generator", "PCG64", "SeedSequence"}
_CALLED_WITHIN = 3  # functions of the program's own inside one another


def seeds_alike(worker_init_fn: Any) -> bool:
    """Whether workers that `worker_init_fn` sets up begin each epoch with the same random numbers:
    it seeds them, and not by what differs from epoch to epoch. Told by its code, and that of the
    functions beside it that it calls.
    """
    codes = list(_codes(worker_init_fn, _CALLED_WITHIN))
    names = {*getattr(worker_init_fn, "__name__", "").split()}.union(
        *(code.co_names for code in codes)
    )
    seeds = any(_SEED in name for name in names - _EVERY_EPOCH) or bool(names & _GENERATORS)
    of_worker = _OF_WORKER in names and (_NUMBER not in names or any(map(_asks_for_seed, codes)))
    by_chance = bool(names & _EVERY_EPOCH) or any(map(_seeds_by_chance, codes))
    return seeds and not of_worker and not by_chance


def _codes(function: Any, depth: int) -> Iterator[CodeType]:
    while (inner := getattr(function, "func", None)) is not None:  # functools.partial
        function = inner
    if not hasattr(function, "__code__"):  # a method, or an object that is called
        function = getattr(function, "__func__", None) or inspect.getattr_static(
            type(function), "__call__", None
        )
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    for each in _within(code):
        yield each
        beside = (getattr(function, "__globals__", {}).get(name) for name in each.co_names)
        for called in beside:
            if depth and isinstance(called, FunctionType):
                yield from _codes(called, depth - 1)


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)


def _asks_for_seed(code: CodeType) -> bool:
    """Whether it reads the seed that torch gave a worker: `worker_info.seed`."""
    return any(
        after.argval == _SEED and "info" in str(before.argval)
        for before, after in pairwise(dis.get_instructions(code))
    )


def _seeds_by_chance(code: CodeType) -> bool:
    """Whether it seeds without saying by what: `np.random.seed()`."""
    return any(
        before.argval == _SEED and "CALL" in after.opname and after.arg == 0
        for before, after in pairwise(dis.get_instructions(code))
    )
