"""How a program seeds the workers of its loader."""

import dis
import inspect
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from autotune.workload.samples.asked import called_by

# What gives a worker other numbers in each epoch: torch's own seed of it, the time, the system's
# chance, the number of its process.
_EVERY_EPOCH = {
    *("initial_seed", "time", "time_ns", "monotonic", "perf_counter", "now"),
    *("urandom", "getpid", "uuid4", "token_bytes"),
}
# What draws from the streams that torch has seeded by that before the function is called.
_DRAWS = {"randint", "randrange", "getrandbits", "randbytes", "rand"}
_STREAMS = {"random", "np", "numpy", "torch"}
_OF_WORKER, _SEED = "get_worker_info", "seed"
_GENERATORS = {"RandomState", "default_rng", "Random", "Generator", "PCG64", "SeedSequence"}
_OF_OTHERS = {"LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF"}  # no local variable
_NOTHING = ("LOAD_CONST", None)
_BESIDE = ("RESUME", "PUSH_NULL", "PRECALL", "CACHE", "NOP")


def seeds_alike(worker_init_fn: Any) -> bool:
    """Whether workers that `worker_init_fn` sets up begin each epoch with the same random numbers:
    it seeds them, and not by what differs from epoch to epoch. Told by its code, and that of the
    functions beside it that it calls.
    """
    codes = _codes(worker_init_fn)
    names = {getattr(worker_init_fn, "__name__", "")}.union(*(code.co_names for code in codes))
    seeds = any(_SEED in name for name in names - _EVERY_EPOCH) or bool(names & _GENERATORS)
    of_worker = _OF_WORKER in names and any(map(_asks_for_seed, codes))
    by_chance = any(_draws_first(code) or _seeds_by_chance(code) for code in codes)
    return seeds and not (of_worker or by_chance or names & _EVERY_EPOCH)


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


def _instructions(code: CodeType) -> list[dis.Instruction]:
    return [each for each in dis.get_instructions(code) if each.opname not in _BESIDE]


def _asks_for_seed(code: CodeType) -> bool:
    """Whether it reads the seed that torch gave a worker: `worker_info.seed`."""
    loads = [each for each in _instructions(code) if not each.opname.startswith("CALL")]
    pairs = list(pairwise(loads))
    given = {after.argval for before, after in pairs if before.argval == _OF_WORKER}
    return any(
        after.argval == _SEED and ("info" in str(before.argval) or before.argval in given)
        for before, after in pairs
    )


def _draws_first(code: CodeType) -> bool:
    """Whether it draws from a stream that torch has seeded before it seeds one itself."""
    seeds = False
    loads = _instructions(code)
    for before, at, after in zip(loads, loads[1:], loads[2:], strict=False):
        if seeds and at.opname.startswith(("POP_TOP", "STORE_")):
            break
        seeds = seeds or (_SEED in str(at.argval) and at.opname in _OF_OTHERS)
        called = at.argval == "random" and after.opname.startswith("CALL") and not after.arg
        of_module = at.opname == "LOAD_GLOBAL" or before.argval in _STREAMS
        if at.argval == "random_" or (of_module and (called or at.argval in _DRAWS)):
            return True
    return False


def _seeds_by_chance(code: CodeType) -> bool:
    """Whether it seeds without saying by what: `np.random.seed()`, or by None."""
    said = [each for each in _instructions(code) if (each.opname, each.argval) != _NOTHING]
    return any(
        before.argval == _SEED and after.opname.startswith("CALL") and after.arg in (0, 1)
        for before, after in pairwise(said)
    )
