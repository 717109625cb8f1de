"""Grids of programs that nobody measured: their rates are simulated, to see strategies on others
than the few measured ones. They are never to be quoted as measurements.

    python -m tests.bench.simulated_grids FOLDER [--seed 0]

Each rate is off by some 5 %. Another seed makes other programs of the same kinds.
"""

import argparse
import csv
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.bench.simulated_loops import Loop, Program, Setting, shares_of
from tests.bench.simulated_programs import PROGRAMS, TRIED

SCATTER = 0.05
STALLED, STALL = 0.015, 0.7  # share of rows, and the speed of those
FAILED = 0.02
# By how much programs of a kind differ in what their parts take, and in what settings do to it.
PARTS, EFFECTS = 0.4, 0.3
_PARTS = ("read", "decode", "send", "compute", "optimizer", "copy", "meeting")


def rows_of(program: Program, seed: int = 0) -> Iterator[dict[str, object]]:
    """Every configuration of `program`, once."""
    chance = random.Random(f"{program.name} {seed}")
    made = varied(program, seed)
    for values in itertools.product(*program.knobs.values()):
        one = dict(zip(program.knobs, values, strict=True))
        if one.get("nw") == 0 and "pf" in one:
            if one["pf"] != program.knobs["pf"][0]:
                continue
            one["pf"] = ""
        loop = made({**one, "pf": one.get("pf") or 2})
        facts: dict[str, object] = dict(shares_of(loop))
        rate = float(str(facts.pop("samples_per_s"))) * math.exp(chance.gauss(0.0, SCATTER))
        rate *= STALL if chance.random() < STALLED else 1.0
        copies = facts.pop("f_copy")
        facts |= {"f_copy": copies} if loop.on_device else {}
        failed = any(one.values()) and chance.random() < FAILED and one.get("nw") != 0
        compiles = str(one.get("compile", "off")) not in ("off", "False")
        yield {
            **one,
            "samples_per_s": "" if failed else round(rate, 2),
            "wall_s": round(1.6 + (20 if compiles else 0) + chance.random(), 3),
            **{name: round(float(str(share)), 4) for name, share in facts.items()},
            **program.extra,
        }


def varied(program: Program, seed: int) -> Callable[[Setting], Loop]:
    """The loops of a program of the same kind: but for the first, each part takes another time,
    and settings change it more or less.
    """
    if seed == 0:
        return program.loop
    chance = random.Random(f"{program.name} varied {seed}")
    own = program.loop({name: values[0] for name, values in program.knobs.items()})
    longer = {part: math.exp(chance.gauss(0.0, PARTS)) for part in _PARTS}
    more = {part: math.exp(chance.gauss(0.0, EFFECTS)) for part in _PARTS}

    def loop(one: Setting) -> Loop:
        made = program.loop(one)
        parts = {}
        for part in _PARTS:
            before = getattr(own, part)
            ratio = getattr(made, part) / before if before else 0.0
            parts[part] = before * longer[part] * ratio ** more[part]
        return replace(made, **parts)

    return loop


def write(
    folder: Path, programs: Iterable[Program] = PROGRAMS + TRIED, seed: int = 0
) -> list[Path]:
    """A table of each of `programs` in `folder`."""
    paths = []
    for program in programs:
        rows = list(rows_of(program, seed))
        random.Random(seed).shuffle(rows)
        paths.append(folder / f"{program.name}{seed or ''}.csv")
        with paths[-1].open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write(arguments.folder, seed=arguments.seed)
