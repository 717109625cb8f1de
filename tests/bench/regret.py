"""How good is what a search has found after a few trials? Strategies replayed on measured grids.

    python -m tests.bench.regret TABLE.csv... [--seeds 40] [--json]

A table has a column for each knob, up to `samples_per_s`, and a row for each configuration; the
shares of a step (`f_data`, `f_data_cpu`, `f_fwdbwd`, `f_opt`) of the user's own setting are all
that the profile-guided strategy is told beforehand. The user's own setting, the first trial of
every strategy, has the fewest workers, the whole batch, two threads and every switch off. A trial
is a look-up; what a table has no row or no rate for fails, and is no trial. Regret is the share of
the best row's speed that is missed by the row which the strategy, from what it saw, would
recommend. Where trials are noisy, the search's own planner spends the last three eighths of them on
measuring again what may be the best, as the search does; and it is told how noisy a trial is, as a
search is by its windows. A file that has no grid is named, and left out.
"""

import argparse
import contextlib
import csv
import functools
import json
import os
import random
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import optuna

from tests.bench.grids import NoGridError, Table, read
from tests.bench.strategies import (
    BY_CHANCE,
    MOST_TRIALS,
    RECOMMENDS,
    STRATEGIES,
    Asked,
    Enough,
    highest,
)

LOOKS = (3, 5, 8, 12)
CLOSE = 0.10
NOISE = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One run of a strategy: regret by number of trials, and when it came close to the best."""

    regret: Mapping[int, float]
    trials_to_close: int
    seconds_to_close: float | None  # where the table says what trials take


def replay(strategy: str, table: Table, noise: float, seed: int) -> Replay:
    """`strategy` on `table`."""
    chance = random.Random(seed)
    recommend = RECOMMENDS.get(strategy, highest)
    regrets: list[float] = []  # after each trial

    def look(ask: Asked) -> None:
        regrets.append(1 - table.rows[recommend(table, ask)].rate / table.best)
        if len(regrets) >= LOOKS[-1] and min(regrets) <= CLOSE:
            raise Enough  # what comes later is not looked at

    later = random.Random(f"{seed} again")
    ask = Asked(table, chance=chance, later=later, noise=noise, look=look)
    with contextlib.suppress(Enough):
        STRATEGIES[strategy](table, chance, ask)
    return _judged([table.rows[key].seconds for key in ask.seen], regrets)


def _judged(seconds: Sequence[float | None], regrets: Sequence[float]) -> Replay:
    close = next((n for n, regret in enumerate(regrets, start=1) if regret <= CLOSE), None)
    known = [each for each in seconds[:close] if each is not None]
    return Replay(
        regret={look: regrets[min(look, len(regrets)) - 1] for look in LOOKS},
        trials_to_close=close or MOST_TRIALS,
        seconds_to_close=sum(known) if known else None,
    )


def summary(replays: Sequence[Replay]) -> dict[str, object]:
    """Means over `replays`."""
    seconds = [each.seconds_to_close for each in replays]
    return {
        "regret": {str(look): fmean(each.regret[look] for each in replays) for look in LOOKS},
        "worst_regret": {str(look): max(each.regret[look] for each in replays) for look in LOOKS},
        "trials_to_10pct": fmean(each.trials_to_close for each in replays),
        "seconds_to_10pct": fmean(seconds) if None not in seconds else None,
    }


def main() -> int:
    """Print regrets by strategy, with and without noise on what the strategies see."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tables = list(tables_of(arguments.tables))
    found = []
    os.environ["OMP_NUM_THREADS"] = "1"  # of each replay, which has a process of its own
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_hush) as replays:
        for table in tables:
            facts: dict[str, object] = {"table": table.name}
            for name in arguments.strategy or STRATEGIES:
                for label, noise in ((name, 0.0), (f"{name}_noisy", NOISE)):
                    play = functools.partial(replay, name, table, noise)
                    differ = noise > 0 or name in BY_CHANCE
                    seeds = range(arguments.seeds if differ else 1)
                    facts[label] = summary(list(replays.map(play, seeds)))
                    if not arguments.json:
                        print(f"{table.name:14} {label:18} {_line(facts[label])}", flush=True)
            found.append(facts)
    if arguments.json:
        print(json.dumps({"tables": found}))
    return 0 if len(tables) == len(arguments.tables) else 1


def tables_of(paths: Sequence[Path]) -> Iterator[Table]:
    """The grids in the files `paths`; a file that has none is named on standard error."""
    for path in paths:
        try:
            yield read(path)
        except (OSError, UnicodeDecodeError, csv.Error, NoGridError) as error:
            print(f"left out: {path}: {error}", file=sys.stderr)


def _hush() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")


def _line(facts: object) -> str:
    assert isinstance(facts, dict)
    regrets = "  ".join(f"{look}: {100 * share:5.1f} %" for look, share in facts["regret"].items())
    return f"regret after {regrets}; to within 10 %: {facts['trials_to_10pct']:.1f} trials"


if __name__ == "__main__":
    sys.exit(main())
