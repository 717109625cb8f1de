"""How a program seeds the workers of its loader."""

import dis
import inspect
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from autotune.workload.asked import called_by

# What gives a worker other numbers in each epoch: torch's own seed of it, of which some is drawn,
# the time, the system's chance, the number of its process.
_EVERY_EPOCH = {
    *("initial_seed", "time", "time_ns", "monotonic", "perf_counter"),
    *("urandom", "getpid", "uuid4", "token_bytes"),
}
_OF_WORKER, _NUMBER, _SEED = "get_worker_info", "id", "seed"
_GENERATORS = {"RandomState", "default_rng", "Random", "Generator", "PCG64", "SeedSequence"}


def seeds_alike(worker_init_fn: Any) -> bool:
    """Whether workers that `worker_init_fn` sets up begin each epoch with the same random numbers:
    it seeds them, and not by what differs from epoch to epoch. Told by its code, and that of the
    functions beside it that it calls.
    """
    codes = _codes(worker_init_fn)
    names = {getattr(worker_init_fn, "__name__", "")}.union(*(code.co_names for code in codes))
    seeds = any(_SEED in name for name in names - _EVERY_EPOCH) or bool(names & _GENERATORS)
    of_worker = _OF_WORKER in names and (_NUMBER not in names or any(map(_asks_for_seed, codes)))
    by_chance = bool(names & _EVERY_EPOCH) or any(map(_seeds_by_chance, codes))
    return seeds and not of_worker and not by_chance


def _codes(function: Any) -> list[CodeType]:
    while (inner := getattr(function, "func", None)) is not None:  # functools.partial
        function = inner
    called = function if isinstance(function, FunctionType) else getattr(function, "__func__", None)
    if called is None:  # an object that is called
        called = inspect.getattr_static(type(function), "__call__", None)
    if not isinstance(called, FunctionType):
        return []
    owner = getattr(function, "__self__", function)
    return [code for code, _ in called_by([called], type(owner))]


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
