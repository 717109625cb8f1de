"""Of a grid whose rows were measured several times: does the planner miss its best, or is that the
luckiest of many rows that are equally fast?

    python -m tests.bench.held_out GRID.csv...

The rates of one round are held out; the planner is replayed on the means of the others, the best
row is the best of those means, and both rows are compared by the rates held out, which chose
neither. Each round has its turn; the share that is missed is of their mean.
"""

import argparse
import contextlib
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from tests.bench.grids import Key, Table, read
from tests.bench.regret import LOOKS
from tests.bench.strategies import STRATEGIES, Asked, Enough, highest

RATES = "rates"  # the column of all rates of a row, by round


def rounds_of(table: Table) -> list[Mapping[Key, float]]:
    """Each round's rates.

    Raises:
        ValueError: some row was not measured as often as others, or all were measured once.
    """
    rates = {key: row.columns.get(RATES, "").split(";") for key, row in table.rows.items()}
    counts = {len(each) for each in rates.values()}
    if len(counts) != 1 or counts == {1}:
        raise ValueError(f"{table.name}: each row needs as many {RATES!r} as others, at least two")
    return [
        {key: float(each[place]) for key, each in rates.items()} for place in range(counts.pop())
    ]


def missed(table: Table) -> dict[int, float]:
    """By number of trials: the share of the best row's speed that the planner's row misses."""
    rounds = rounds_of(table)
    pairs: dict[int, list[tuple[float, float]]] = {look: [] for look in LOOKS}
    for place, held_out in enumerate(rounds):
        known = _means(table, [each for other, each in enumerate(rounds) if other != place])
        best = max(known.rows, key=lambda key, known=known: known.rows[key].rate)
        for look, chosen in _chosen(known).items():
            pairs[look].append((held_out[chosen], held_out[best]))
    return {
        look: 1 - fmean(chosen for chosen, _ in each) / fmean(best for _, best in each)
        for look, each in pairs.items()
    }


def _means(table: Table, rounds: Sequence[Mapping[Key, float]]) -> Table:
    rows = {
        key: replace(row, rate=fmean(each[key] for each in rounds))
        for key, row in table.rows.items()
    }
    return replace(table, rows=rows)


def _chosen(table: Table) -> dict[int, Key]:
    """The planner's row after so many trials."""
    chosen: list[Key] = []

    def look(ask: Asked) -> None:
        chosen.append(highest(table, ask))

    chance = random.Random(0)  # draws nothing: there is no noise
    ask = Asked(table, chance=chance, later=chance, noise=0.0, look=look)
    with contextlib.suppress(Enough):
        STRATEGIES["profile"](table, chance, ask)
    return {look: chosen[min(look, len(chosen)) - 1] for look in LOOKS}


def main() -> int:
    """Print what is missed by number of trials."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("grids", nargs="+", type=Path)
    for path in parser.parse_args().grids:
        shares = missed(read(path))
        line = "  ".join(f"{look}: {100 * share:5.1f} %" for look, share in shares.items())
        print(f"{path}: missed after {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
