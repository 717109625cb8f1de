"""How good is what a search has found after a few trials? Strategies replayed on measured grids.

    python -m tests.bench.regret TABLE.csv... [--seeds 40] [--json]

A table has a column for each knob, up to `samples_per_s`, and a row for each configuration; the
shares of a step (`f_data`, `f_data_cpu`, `f_fwdbwd`, `f_opt`) of the user's own setting are all
that the profile-guided strategy is told beforehand. The user's own setting, the first trial of
every strategy, has the fewest workers, the whole batch, two threads and every switch off. A trial
is a look-up; what a table has no row or no rate for fails, and is no trial. Regret is the share of
the best row's speed that is missed by the row which the strategy, from what it saw, would
recommend. The search's own planner spends the last two of its trials as the search does, measuring
the two best again; and it is told how noisy a trial is, as a search is by its windows.
"""

import argparse
import contextlib
import csv
import functools
import itertools
import json
import math
import os
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import optuna

from autotune.knobs import KNOBS
from autotune.knobs.knob import Config, Expectation, Value
from autotune.measurement.measurement import Measurement
from autotune.trials.performance import STRUCTURE, Costs
from autotune.trials.planner import Z_95, Planner
from autotune.trials.trial import Trial
from tests import builders

LOOKS = (3, 5, 8, 12)
MOST_TRIALS = 60
CLOSE = 0.10
NOISE = 0.12
LEAST_INTERVAL = 0.05  # of a trial, to either side
FEWEST_EXPLORED = 3  # trials, the user's own setting among them, before two are measured again
CORES = 2.0

# Columns whose knob has another name here; the others are taken as they are.
KNOB_OF = {
    "nw": "num_workers",
    "thr": "threads",
    "cl": "channels_last",
    "opt": "optimizer",
    "pf": "prefetch_factor",
    "io_threads": "fetch_threads",
    "mb": "micro_batches",
}
# What a switch is called that is off.
OFF = ("forloop", "off", "none", "no", "eager", "fp32", "float32", "contiguous", "default")
# What is expected of a switch that is no knob of ours.
LOADER_SWITCHES = ("getitems",)
UNKNOWN_SD = 0.2
USUAL_BATCH = 16

Key = frozenset[tuple[str, Value]]  # what differs from the user's own setting
Recommend = Callable[["Table", "Asked"], Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured configuration: its rate in samples/s, and what timing it took in seconds."""

    rate: float
    seconds: float
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A measured grid. `rows` are by what differs from `own`."""

    name: str
    choices: Mapping[str, tuple[Value, ...]]
    own: Config
    rows: Mapping[Key, Row]
    batch: int

    @property
    def best(self) -> float:
        """The highest rate in it."""
        return max(row.rate for row in self.rows.values())

    def row(self, config: Config) -> Row | None:
        """The row of the program's own setting with `config` changed."""
        return self.rows.get(_difference({**self.own, **config}, self.own))


def read(path: Path) -> Table:
    """The grid in a CSV file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(itertools.takewhile(lambda name: name != "samples_per_s", rows[0]))
    batch = max((int(row["mb"]) for row in rows), default=0) if "mb" in names else USUAL_BATCH
    configs = [{KNOB_OF.get(n, n): _value(n, row[n], batch) for n in names} for row in rows]
    choices = {
        name: tuple(sorted({config[name] for config in configs}, key=lambda v: (str(type(v)), v)))
        for name in configs[0]
    }
    own = {name: _own(name, values) for name, values in choices.items()}
    return Table(
        name=path.stem,
        choices=choices,
        own=own,
        batch=batch,
        rows={
            _difference(config, own): Row(
                rate=float(row["samples_per_s"]), seconds=float(row["wall_s"]), columns=row
            )
            for config, row in zip(configs, rows, strict=True)
            if row["samples_per_s"]
        },
    )


def _value(name: str, text: str, batch: int) -> Value:
    if name == "mb":
        return batch // int(text)
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return text


def _own(name: str, values: Sequence[Value]) -> Value:
    if name == "threads":
        return 2 if 2 in values else values[0]
    return next((off for off in OFF if off in values), values[0])


def _difference(config: Config, own: Config) -> Key:
    return frozenset((name, value) for name, value in config.items() if value != own[name])


class _Enough(Exception):
    """The strategy has had its trials."""


class _NotThere(Exception):
    """The table has no such configuration."""


class Asked:
    """The rates of a table's configurations, as a strategy sees them.

    Args:
        table: what is asked.
        chance: of what is added to a rate.
        later: the same, where one is measured again.
        noise: its standard deviation, of the rate's logarithm.
        look: is called after each trial.
    """

    def __init__(
        self,
        table: Table,
        *,
        chance: random.Random,
        later: random.Random,
        noise: float,
        look: Callable[["Asked"], None],
    ) -> None:
        self.noise = noise
        self.seen: dict[Key, float] = {}
        self._table = table
        self._chance = chance
        self._later = later
        self._again: dict[Key, float] = {}
        self._look = look
        self._repeats = 0

    def __call__(self, config: Config) -> float:
        """The rate of a trial. A configuration asked for again is none: its figure is known.

        Raises:
            _Enough: there are no more trials.
            _NotThere: it cannot be tried.
        """
        key = _difference({**self._table.own, **config}, self._table.own)
        if key in self.seen or key not in self._table.rows:
            self._repeats += 1
            if self._repeats > 100 * MOST_TRIALS:
                raise _Enough
            if key not in self.seen:
                raise _NotThere
            return self.seen[key]
        if len(self.seen) >= min(MOST_TRIALS, len(self._table.rows)):
            raise _Enough
        self.seen[key] = self._rate(key, self._chance)
        self._look(self)
        return self.seen[key]

    def again(self, config: Config) -> float:
        """The rate of a known configuration, measured once more."""
        key = _difference({**self._table.own, **config}, self._table.own)
        if key not in self._again:
            self._again[key] = self._rate(key, self._later)
        return self._again[key]

    def _rate(self, key: Key, chance: random.Random) -> float:
        return self._table.rows[key].rate * math.exp(chance.gauss(0.0, self.noise))


def profile_guided(table: Table, chance: random.Random, ask: Asked) -> None:
    """The search's own planner, told the profile of the program as it is."""
    planner = _planner(table)
    trials = [_trial(0, {}, ask({}), ask.noise)]
    while (proposal := planner.propose(trials)) is not None:
        rate = ask(proposal.config)
        trials.append(_trial(len(trials), proposal.config, rate, ask.noise))


def most_likely(table: Table, ask: Asked) -> Key:
    """The row that the search's own planner would take to the verdict, by its model and not by the
    highest of noisy rates: two of as many trials as there were went to the two best once more.
    """
    seen = list(ask.seen.items())
    again = 2 if len(seen) >= FEWEST_EXPLORED + 2 else 0
    planner = _planner(table)
    trials = [
        _trial(number, dict(key), rate, ask.noise)
        for number, (key, rate) in enumerate(seen[: len(seen) - again])
    ]
    for each in planner.ranked(trials)[:again]:
        config = each.trial.config
        trials.append(_trial(len(trials), config, ask.again(config), ask.noise))
    return frozenset(planner.ranked(trials)[0].trial.config.items())


def highest(table: Table, ask: Asked) -> Key:
    """The row that looked fastest: what Optuna calls the best trial."""
    return max(ask.seen, key=ask.seen.__getitem__)


def _planner(table: Table) -> Planner:
    return Planner(_costs(table), table.own, map(dict, table.rows), _expected(table))


def _costs(table: Table) -> Costs:
    row = table.row({})
    assert row is not None, f"{table.name} has no row of the user's own setting"
    share = {name: float(row.columns[name]) / row.rate for name in row.columns if name[:2] == "f_"}
    spent = share["f_data"] + share["f_fwdbwd"] + share["f_opt"]
    return Costs(
        loader=share["f_data"],
        loader_processor=min(share["f_data"], share["f_data_cpu"]),
        compute=share["f_fwdbwd"],
        optimizer=share["f_opt"],
        copy=0.0,
        other=max(0.0, 1 / row.rate - spent),
        batch=table.batch,
        cores=CORES,
    )


def _expected(table: Table) -> dict[tuple[str, Value], Expectation]:
    knobs = {knob.name: knob for knob in KNOBS}
    profile = builders.profile(machine=builders.machine(device="cpu"))
    expected: dict[tuple[str, Value], Expectation] = {}
    for name, values in table.choices.items():
        for value in values:
            if name in STRUCTURE or value == table.own[name]:
                continue
            phase = "data" if name in LOADER_SWITCHES else "compute"
            expected[name, value] = Expectation(phase=phase, sd=UNKNOWN_SD)
            if name in knobs:
                known = "default" if (name, value) == ("compile", True) else value
                expected[name, value] = knobs[name].expects(known, profile)
    return expected


def _trial(number: int, config: Config, rate: float, noise: float) -> Trial:
    either_side = max(LEAST_INTERVAL, Z_95 * noise)
    outcome = Measurement(
        samples_per_second=rate,
        interval=(rate * math.exp(-either_side), rate * math.exp(either_side)),
        windows=(),
        seen=builders.seen(),
        startup_seconds=0.0,
        peak_bytes=None,
        losses=(),
    )
    return Trial(number=number, config=config, outcome=outcome, seconds=0.0)


def sampled(sampler: Callable[[int], optuna.samplers.BaseSampler]) -> "Guess":
    """A sampler of Optuna's on the same choices."""

    def guess(table: Table, chance: random.Random, ask: Asked) -> None:
        study = optuna.create_study(direction="maximize", sampler=sampler(chance.getrandbits(31)))
        study.enqueue_trial(dict(table.own))
        for _ in range(5 * MOST_TRIALS):
            trial = study.ask()
            config = {
                name: trial.suggest_categorical(name, values)
                for name, values in table.choices.items()
            }
            try:
                study.tell(trial, ask(config))
            except _NotThere:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)

    return guess


def coordinate(table: Table, chance: random.Random, ask: Asked) -> None:
    """One knob after another, each left at its best value, the largest phase's first."""
    best, speed = dict(table.own), ask({})
    while True:
        for name in _by_share(table):
            for value in table.choices[name]:
                config = {**best, name: value}
                with contextlib.suppress(_NotThere):
                    if (found := ask(config)) > speed:
                        best, speed = config, found


def _by_share(table: Table) -> list[str]:
    costs, expected = _costs(table), _expected(table)
    shares = {"data": costs.loader, "compute": costs.compute, "optimizer": costs.optimizer}
    phase = {name: expectation.phase for (name, _), expectation in expected.items()}
    phase |= {"num_workers": "data", "fetch_threads": "data", "threads": "compute"}
    return sorted(table.choices, key=lambda name: -shares.get(phase.get(name, ""), 0.0))


Guess = Callable[[Table, random.Random, Asked], None]
STRATEGIES: Mapping[str, Guess] = {
    "profile": profile_guided,
    "tpe": sampled(lambda seed: optuna.samplers.TPESampler(seed=seed)),
    "gp": sampled(lambda seed: optuna.samplers.GPSampler(seed=seed)),
    "random": sampled(lambda seed: optuna.samplers.RandomSampler(seed=seed)),
    "coordinate": coordinate,
}
RECOMMENDS: Mapping[str, Recommend] = {"profile": most_likely}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One run of a strategy: regret by number of trials, and when it came close to the best."""

    regret: Mapping[int, float]
    trials_to_close: int
    seconds_to_close: float


def replay(strategy: str, table: Table, noise: float, seed: int) -> Replay:
    """`strategy` on `table`."""
    chance = random.Random(seed)
    recommend = RECOMMENDS.get(strategy, highest)
    regrets: list[float] = []  # after each trial

    def look(ask: Asked) -> None:
        regrets.append(1 - table.rows[recommend(table, ask)].rate / table.best)
        if len(regrets) >= LOOKS[-1] and min(regrets) <= CLOSE:
            raise _Enough  # what comes later is not looked at

    later = random.Random(f"{seed} again")
    ask = Asked(table, chance=chance, later=later, noise=noise, look=look)
    with contextlib.suppress(_Enough):
        STRATEGIES[strategy](table, chance, ask)
    return _judged([table.rows[key].seconds for key in ask.seen], regrets)


def _judged(seconds: Sequence[float], regrets: Sequence[float]) -> Replay:
    close = next((n for n, regret in enumerate(regrets, start=1) if regret <= CLOSE), None)
    return Replay(
        regret={look: regrets[min(look, len(regrets)) - 1] for look in LOOKS},
        trials_to_close=close or MOST_TRIALS,
        seconds_to_close=sum(seconds[:close]),
    )


def summary(replays: Sequence[Replay]) -> dict[str, object]:
    """Means over `replays`."""
    return {
        "regret": {str(look): fmean(each.regret[look] for each in replays) for look in LOOKS},
        "worst_regret": {str(look): max(each.regret[look] for each in replays) for look in LOOKS},
        "trials_to_10pct": fmean(each.trials_to_close for each in replays),
        "seconds_to_10pct": fmean(each.seconds_to_close for each in replays),
    }


def main() -> None:
    """Print regrets by strategy, with and without noise on what the strategies see."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tables = [read(path) for path in arguments.tables]
    found = []
    os.environ["OMP_NUM_THREADS"] = "1"  # of each replay, which has a process of its own
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_hush) as replays:
        for table in tables:
            facts: dict[str, object] = {"table": table.name}
            for name in arguments.strategy or STRATEGIES:
                for label, noise in ((name, 0.0), (f"{name}_noisy", NOISE)):
                    play = functools.partial(replay, name, table, noise)
                    facts[label] = summary(list(replays.map(play, range(arguments.seeds))))
                    if not arguments.json:
                        print(f"{table.name:14} {label:18} {_line(facts[label])}", flush=True)
            found.append(facts)
    if arguments.json:
        print(json.dumps({"tables": found}))


def _hush() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")


def _line(facts: object) -> str:
    assert isinstance(facts, dict)
    regrets = "  ".join(f"{look}: {100 * share:5.1f} %" for look, share in facts["regret"].items())
    return f"regret after {regrets}; to within 10 %: {facts['trials_to_10pct']:.1f} trials"


if __name__ == "__main__":
    main()
