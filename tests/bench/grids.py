"""Exhaustively measured grids, read from tables in which each row is a configuration.

A table has a column for each knob, up to `samples_per_s`; which knobs those are, and what their
values are called, is the table's own affair. The user's own setting is the row with the fewest
workers, the whole batch, two threads and every switch off. A configuration without a rate failed.
"""

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from autotune.knobs.knob import Config, Value
from autotune.trials.loop import STRUCTURE

RATE, SECONDS = "samples_per_s", "wall_s"

# What columns may be called whose knobs are known. `micro_batch` is a number of samples.
_CALLED = {
    "num_workers": "nw workers n_workers nworkers loader_workers dataloader_workers",
    "threads": "thr num_threads n_threads nthreads torch_threads intra_op_threads intraop omp "
    "omp_threads omp_num_threads",
    "fetch_threads": "io_threads io n_io fetchers read_threads reader_threads",
    "micro_batch": "mb microbatch micro_batch_size mbs ubatch",
    "micro_batches": "accum accumulate accumulation accumulation_steps grad_accum",
    "batch_size": "batch bs",
    "prefetch_factor": "pf prefetch",
    "persistent_workers": "persistent persist pw",
    "pin_memory": "pin pinned pinned_memory",
    "non_blocking": "nb nonblocking",
    "prefetch_to_device": "device_prefetch gpu_prefetch",
    "precision": "amp prec dtype autocast bf16 fp16 mixed_precision",
    "channels_last": "cl nhwc memory_format mem_format",
    "checkpointing": "ckpt checkpoint grad_ckpt grad_checkpoint gradient_checkpointing act_ckpt",
    "compile": "torch_compile compiled compile_mode",
    "cudnn_benchmark": "cudnn cudnn_bench",
    "expandable_segments": "expandable",
    "set_to_none": "zero_grad_none set_grads_none",
    "optimizer": "opt optim optimiser opt_impl",
}
_KNOB_OF = {called: knob for knob, names in _CALLED.items() for called in names.split()}
_WHOLE = ("micro_batch", "batch_size")  # largest in the user's own setting
_USUAL = {"threads": 2, "prefetch_factor": 2}

# Values by which a switch is off, the surest first.
BLANK = ""
OFF = (
    *("false", "off", "no", "none", BLANK, "disabled", "forloop", "for-loop", "for_loop", "loop"),
    *("eager", "fp32", "float32", "highest", "contiguous", "nchw", "channels_first", "pageable"),
    *("pil", "pillow", "math", "sync", "plain", "standard", "own", "default"),
)
_BLANK = (BLANK, "nan", "null", "na", "n/a", "<na>", "-")
_USUAL_BATCH = 16

Key = frozenset[tuple[str, Value]]  # what differs from the user's own setting


class NoGridError(ValueError):
    """A file has no measured grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured configuration: its rate in samples/s, what timing it took in seconds, where that
    is known, and the knobs that mean nothing beside its others (prefetching without workers).
    """

    rate: float
    seconds: float | None
    columns: Mapping[str, str]
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A measured grid. `rows` are by what differs from `own`; `choices` are each knob's values, the
    likeliest to be a program's own first.
    """

    name: str
    choices: Mapping[str, tuple[Value, ...]]
    own: Config
    rows: Mapping[Key, Row]

    @property
    def best(self) -> float:
        """The highest rate in it."""
        return max(row.rate for row in self.rows.values())

    @property
    def batch(self) -> float:
        """Samples of a step."""
        whole = (self.own.get(name) for name in _WHOLE)
        known = (float(size) for size in whole if isinstance(size, (int, float)) and size > 0)
        return next(known, _USUAL_BATCH)

    def key(self, config: Config) -> Key:
        """The user's own setting with `config` changed, without what means nothing there."""
        key = _difference({**self.own, **config}, self.own)
        if key in self.rows:
            return key
        optional = frozenset().union(*(row.without for row in self.rows.values()))
        bare = frozenset((name, value) for name, value in key if name not in optional)
        dropped = {name for name, _ in key - bare}
        return bare if bare in self.rows and self.rows[bare].without >= dropped else key


def read(path: Path) -> Table:
    """The grid in a CSV file.

    Raises:
        NoGridError: there is none in it.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        rows = [_stripped(row) for row in reader]
        columns = [name.strip() for name in reader.fieldnames or ()]
    configs = _configs(list(itertools.takewhile(lambda name: name != RATE, columns)), rows)
    if not configs or not any(_rate(row) for row in rows):
        raise NoGridError(f"there are no knobs before a column {RATE} with rates in it")
    return _table(path.stem, configs, rows)


def _table(name: str, configs: list[dict[str, Value]], rows: Sequence[Mapping[str, str]]) -> Table:
    optional = [knob for knob in configs[0] if _is_optional(knob, configs)]
    without = [frozenset(each for each in optional if one[each] == BLANK) for one in configs]
    choices = {}
    for knob in configs[0]:
        values = {each[knob] for each in configs} - ({BLANK} if knob in optional else set())
        choices[knob] = tuple(sorted(values, key=lambda value, knob=knob: _order(knob, value)))
    configs = [
        {**config, **{knob: choices[knob][0] for knob in meaningless}}
        for config, meaningless in zip(configs, without, strict=True)
    ]
    measured = [each for each in zip(configs, rows, without, strict=True) if _rate(each[1])]
    own = min((config for config, *_ in measured), key=lambda each: _distance(each, choices))
    found: dict[Key, list[Row]] = {}
    for config, row, meaningless in measured:
        seconds = _number(row.get(SECONDS, ""))
        one = Row(rate=_rate(row), seconds=seconds, columns=row, without=meaningless)
        found.setdefault(_difference(config, own), []).append(one)
    return Table(name=name, choices=choices, own=own, rows=_one_of_each(found))


def _one_of_each(found: Mapping[Key, Sequence[Row]]) -> dict[Key, Row]:
    """The mean of what was measured of each configuration. A trial of which nothing else is known
    takes as long as the usual one.
    """
    known = [row.seconds for same in found.values() for row in same if row.seconds is not None]
    usual = median(known) if known else None
    return {
        key: Row(
            rate=fmean(row.rate for row in same),
            seconds=next((row.seconds for row in same if row.seconds is not None), usual),
            columns=same[0].columns,
            without=same[0].without,
        )
        for key, same in found.items()
    }


def _stripped(row: Mapping[str | None, object]) -> dict[str, str]:
    return {name.strip(): str(text or "").strip() for name, text in row.items() if name is not None}


def _configs(names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> list[dict[str, Value]]:
    """What each row's knobs were, by their usual names."""
    columns: dict[str, list[Value]] = {}
    for name in names:
        plain = name.lower().replace("-", "_").replace(" ", "_")
        knob = _KNOB_OF.get(plain, plain)
        if knob not in _CALLED and _is_index(name, names, rows):
            continue
        values = [_value(row.get(name, "")) for row in rows]
        if knob in STRUCTURE:
            values = [0 if value == BLANK else value for value in values]
            if any(isinstance(value, str) for value in values):
                knob = f"{plain} by name"
        columns[name if knob in columns else knob] = values
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _is_index(name: str, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether a column only says which row it is."""
    if not name or name.lower().startswith("unnamed"):
        return True
    others = {tuple(row[each] for each in names if each != name) for row in rows}
    return len({row[name] for row in rows}) == len(others) == len(rows) > 2


def _is_optional(knob: str, configs: Sequence[Config]) -> bool:
    """Whether a knob is blank where it means nothing: beside certain values of another knob, and
    nowhere else. Otherwise being blank is a way of being off.
    """
    blank = [config for config in configs if config[knob] == BLANK]
    others = [config for config in configs if config[knob] != BLANK]
    return bool(blank and others) and any(
        {config[name] for config in blank}.isdisjoint(config[name] for config in others)
        for name in configs[0]
        if name != knob
    )


def _value(text: str) -> Value | float:
    word = text.lower()
    if word in _BLANK:
        return BLANK
    if word in ("true", "false"):
        return word == "true"
    number = _number(word)
    if number is None:
        return word
    return int(number) if number.is_integer() else number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _rate(row: Mapping[str, str]) -> float:
    """Samples/s of a row, 0 where it failed."""
    return max(0.0, _number(row.get(RATE, "")) or 0.0)


def _order(knob: str, value: Value) -> tuple[int, float, str]:
    """Sorts values of a knob, the likeliest to be a program's own first."""
    word = str(value).lower()
    if word in OFF:
        return 0, OFF.index(word), ""
    if isinstance(value, str):
        return 2, 0.0, word
    if knob in _WHOLE:
        return 1, -float(value), ""
    if knob in _USUAL:
        return 1, abs(value - _USUAL[knob]), word
    return 1, float(value), ""


def _distance(config: Config, choices: Mapping[str, Sequence[Value]]) -> tuple[int, ...]:
    """How far a configuration is from a user's own."""
    places = {name: of.index(config[name]) for name, of in choices.items()}
    first = [places.pop(name, 0) for name in ("num_workers", *_WHOLE, "threads")]
    return (*first, sum(place > 0 for place in places.values()), *places.values())


def _difference(config: Config, own: Config) -> Key:
    return frozenset((name, value) for name, value in config.items() if value != own[name])
