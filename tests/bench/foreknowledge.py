"""What a measured grid tells the search's planner before the first trial: the shares of a step of
the user's own setting, the processors, and what is expected of each knob's values.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from autotune.knobs import KNOBS
from autotune.knobs.knob import Expectation, Value
from autotune.profiling.profile import Profile
from autotune.trials.loop import STRUCTURE, Costs
from tests import builders
from tests.bench.grids import OFF, Row, Table

CORES = 2.0  # unless a table says otherwise
_CORES = ("cores", "n_cores", "num_cores", "cpus", "n_cpus", "num_cpus", "cpu_count")
# Columns that have a phase's share, or parts of it.
_SHARES = {
    "data": ("f_data",),
    "compute": ("f_fwdbwd", "f_fwd", "f_bwd", "f_forward", "f_backward", "f_compute"),
    "optimizer": ("f_opt", "f_optimizer"),
    "copy": ("f_copy", "f_h2d", "f_transfer"),
}
_PROCESSOR = "f_data_cpu"
_USUAL_PROCESSOR = 0.5  # of the loader's time, where a table does not say
# Where the user's own setting has workers, less waiting than this says that they have time left.
_WAITS = 0.05

# Switches that are no knobs of ours: what they are for, by how words of their names begin.
_FOR = {
    "data": "getitem batched cache decode read shm shared fetch load data io augment transform "
    "collate jpeg mmap persist worker sampler shuffle queue buffer",
    "copy": "pin copy copies device",
    "compute": "attn attention sdpa flash compile graph matmul tf32 bf16 fp16 amp cudnn mkldnn "
    "onednn norm inplace layout memory checkpoint activation",
    "optimizer": "fused foreach optim adam sgd zero ema clip capturable",
}
_UNKNOWN_SD = 0.2
_ELSEWHERE_SD = 0.03  # what a switch does to phases that it is not for
# bf16 ran at 0.05 to 0.27 times the speed on CPUs without units for it, and faster on those that
# have them. A search probes for them; a table does not say.
_UNPROBED = Expectation(phase="compute", log_mean=0.4, sd=0.5)

_WORDS: Mapping[str, Mapping[Value, Value]] = {
    "compile": {True: "default", "on": "default", "inductor": "default", "default": "default"},
    "precision": {True: "bf16", "on": "bf16", "bfloat16": "bf16", "half": "fp16", "float16": "fp16"}
    | {"high": "tf32", "medium": "tf32"},
    "optimizer": {True: "fused", "on": "fused"},
    "checkpointing": {True: 1000, "on": 1000, "all": 1000, "full": 1000},
}
_NONE_OF_IT: Mapping[str, Value] = {
    "compile": "off",
    "precision": "fp32",
    "optimizer": "forloop",
    "checkpointing": 0,
    "micro_batches": 1,
}


def costs_of(table: Table) -> Costs:
    """What a sample costs at the user's own settings, phase by phase."""
    row = table.rows[frozenset()]
    seconds = 1 / row.rate
    shares, processor = _shares(row)
    loader = seconds * shares["data"]
    workers = float(table.own.get("num_workers", 0))
    if workers >= 1:  # what is seen is waiting, after what the workers did meanwhile
        loader = workers * seconds * (1.0 if shares["data"] >= _WAITS else 0.5)
        processor = _USUAL_PROCESSOR
    return Costs(
        loader=loader,
        loader_processor=loader * processor,
        compute=seconds * shares["compute"],
        optimizer=seconds * shares["optimizer"],
        copy=seconds * shares["copy"],
        other=seconds * max(0.0, 1 - sum(shares.values())),
        batch=table.batch,
        cores=_cores(table),
        threads_compute=not _on_device(shares),
    )


def expected_of(table: Table) -> list[tuple[tuple[str, Value], Expectation]]:
    """What each value should do, relative to the user's own; of what is not known, to each phase a
    little.
    """
    shares, _ = _shares(table.rows[frozenset()])
    device = "cuda" if _on_device(shares) else "cpu"
    profile = replace(builders.profile(machine=builders.machine(device=device)), probes={})
    return [
        ((name, value), expectation)
        for name, values in table.choices.items()
        if name not in STRUCTURE
        for value in values
        if value != table.own[name]
        for expectation in _expects(table, name, value, profile, shares)
    ]


def _expects(
    table: Table, name: str, value: Value, profile: Profile, shares: Mapping[str, float]
) -> Iterator[Expectation]:
    there, own = (_known(table, name, each, profile) for each in (value, table.own[name]))
    if there is None or own is None:
        yield from _unknown(name)
    elif shares[there.phase] > 0:
        yield replace(there, log_mean=there.log_mean - own.log_mean)
    else:  # what it is for takes no time here, as copies where there is no device
        yield from (Expectation(phase=phase, sd=_ELSEWHERE_SD) for phase in _SHARES)


def _unknown(name: str) -> Iterator[Expectation]:
    aims = [
        phase
        for phase, words in _FOR.items()
        if any(each.startswith(tuple(words.split())) for each in name.split("_"))
    ]
    for phase in _SHARES:
        sd = _UNKNOWN_SD if not aims or phase in aims else _ELSEWHERE_SD
        yield Expectation(phase=phase, sd=sd)


def _known(table: Table, name: str, value: Value, profile: Profile) -> Expectation | None:
    """What a knob of ours expects, None where it is none or does not know the value."""
    if name == "micro_batch" and isinstance(value, (int, float)) and value > 0:
        name, value = "micro_batches", max(1, round(table.batch / value))
    if name in ("fused", "foreach"):
        name, value = "optimizer", value if str(value).lower() in OFF else name
    knob = next((each for each in KNOBS if each.name == name), None)
    if knob is None:
        return None
    value = _WORDS.get(name, {}).get(value, value)
    if value == 0 or (str(value) in (*OFF, "False") and (name, value) != ("compile", "default")):
        value = _NONE_OF_IT.get(name, False)
    if name == "precision" and value == "bf16" and profile.machine.device == "cpu":
        return _UNPROBED
    with suppress(KeyError, ValueError):
        return knob.expects(value, profile)
    return None


def _shares(row: Row) -> tuple[dict[str, float], float]:
    """The phases' shares of a step; the share of the loader's time in which it keeps a core busy.
    Phases of which nothing is said have alike what is left.
    """
    said = {phase: _sum(row, names) for phase, names in _SHARES.items()}
    shares = {phase: share or 0.0 for phase, share in said.items()}
    missing = [phase for phase, share in said.items() if share is None and phase != "copy"]
    left = max(0.0, 1 - sum(shares.values()))
    shares |= {phase: left / len(missing) for phase in missing}
    working = _sum(row, (_PROCESSOR,))
    processor = _USUAL_PROCESSOR
    if working is not None and said["data"]:
        processor = min(1.0, working / said["data"])
    whole = max(1.0, sum(shares.values()))  # some write percents
    return {phase: share / whole for phase, share in shares.items()}, processor


def _sum(row: Row, names: Iterable[str]) -> float | None:
    found = [number for name in names if (number := _number(row.columns.get(name, ""))) is not None]
    return sum(found) if found else None


def _cores(table: Table) -> float:
    said = _largest(table, _CORES)
    if said is not None:
        return max(1.0, said)
    threads = max((float(each) for each in table.choices.get("threads", ())), default=CORES)
    used = _largest(table, ("cores_main",))
    return max(CORES, threads if used is None else min(threads, round(used)))


def _largest(table: Table, names: Iterable[str]) -> float | None:
    found = (_number(row.columns.get(each, "")) for row in table.rows.values() for each in names)
    return max((number for number in found if number is not None), default=None)


def _on_device(shares: Mapping[str, float]) -> bool:
    return shares["copy"] > 0


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
