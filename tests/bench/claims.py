"""Whether the gains that searches of other people's programs told are those of the stopwatch.

    python -m tests.bench.claims [reports/programs]

Each program that was handed back faster and timed, as it is and patched, is held against what its
search said (`delivered_of_*.tsv`): steps a second without the long gaps between epochs. It was
timed in processes of some seconds, one after another (`steps_by_stopwatch.tsv`), or in two at a
time that took turns (`steps_in_turns.tsv`, by `tests.bench.patched`), which counts where there are
both. A program whose first pair came out low was mostly timed in several: its mean counts as one.

The stopwatch is wrong too. How much a pair of runs one after another scatters is by the programs
that were timed in four pairs or more, without the first, which decided that there were more; how
much a pair in turns does, by those that were timed in two or more.
"""

import csv
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev, variance

OWN, PATCHED = "own", "patched"
IN_TURNS = "steps_in_turns.tsv"
BY_ITSELF = "steps_by_stopwatch.tsv"
FEWEST_PAIRS = {BY_ITSELF: 4, IN_TURNS: 2}
LEFT_OUT = {BY_ITSELF: 1, IN_TURNS: 0}  # of the pairs of such a program, to know their scatter
Z_OF_INTERVALS = 2.29  # they are told with 97.8 % confidence
SETTINGS = ("num_workers", "keep_freed_memory", "precision", "threads", "optimizer")


@dataclass(frozen=True, slots=True)
class Claim:
    """A gain that was told, with its interval, and the stopwatch's of each pair of runs, with the
    file that has them.
    """

    program: str
    settings: str
    told: float
    low: float
    high: float
    each: tuple[float, ...]
    timed_in: str = BY_ITSELF

    @property
    def timed(self) -> float:
        """The stopwatch's gain."""
        return _mean(self.each)

    @property
    def pairs(self) -> int:
        """In how many pairs of runs it was timed."""
        return len(self.each)

    @property
    def ratio(self) -> float:
        """The stopwatch's gain to the one that was told."""
        return self.timed / self.told


def claims(folder: Path) -> list[Claim]:
    """The gains in `folder` that were told and timed."""
    runs = {name: _gains(folder / name) for name in (BY_ITSELF, IN_TURNS)}
    found = []
    for path in sorted(folder.glob("delivered_of_*.tsv")):
        for row in _rows(path):
            program, told = row["program"], float(row["handed_back"] or 0.0)
            timed_in = IN_TURNS if program in runs[IN_TURNS] else BY_ITSELF
            gains = runs[timed_in].get(program, ())
            if gains and told > 1:
                bounds = float(row["low"]), float(row["high"])
                found.append(Claim(program, row["settings"], told, *bounds, gains, timed_in))
    return found


def _gains(path: Path) -> dict[str, tuple[float, ...]]:
    """Of each program in `path`, what each pair of its runs gained."""
    runs: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in _rows(path) if path.exists() else ():
        rate = float(row["without_long_gaps"])
        runs[row["program"]][row["pair"]][row["source"]] = rate
    gains = {
        program: tuple(
            each[PATCHED] / each[OWN] for each in pairs.values() if {OWN, PATCHED} <= set(each)
        )
        for program, pairs in runs.items()
    }
    return {program: each for program, each in gains.items() if each}


def scatter(found: Sequence[Claim], timed_in: str = BY_ITSELF) -> float:
    """The standard deviation of the logarithm of what the stopwatch has for one pair of runs that
    were timed as those in the file `timed_in`; 0 where too few were timed to say.
    """
    several = [
        list(map(math.log, claim.each[LEFT_OUT[timed_in] :]))
        for claim in found
        if claim.timed_in == timed_in and claim.pairs >= FEWEST_PAIRS[timed_in]
    ]
    squares = sum(variance(each) * (len(each) - 1) for each in several)
    return math.sqrt(squares / max(1, sum(len(each) - 1 for each in several)))


def denied(found: Sequence[Claim], of_a_pair: Mapping[str, float]) -> list[Claim]:
    """The claims that lie further from the stopwatch's gain than the errors of both allow, with the
    confidence of their intervals; `of_a_pair` is the stopwatch's, as a logarithm, by `timed_in`.
    """
    reach = [
        math.hypot(
            math.log(each.high / each.low) / 2,
            Z_OF_INTERVALS * of_a_pair[each.timed_in] / math.sqrt(each.pairs),
        )
        for each in found
    ]
    return [each for each, far in zip(found, reach, strict=True) if abs(math.log(each.ratio)) > far]


def _rows(path: Path) -> list[Mapping[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _mean(ratios: Sequence[float]) -> float:
    """Their geometric mean."""
    return math.exp(fmean(map(math.log, ratios)))


def summary(found: Sequence[Claim], what: str) -> str:
    """A line on the stopwatch's gains over those that were told, of `what`."""
    ratios = [each.ratio for each in found]
    if len(ratios) < 2:
        return f"{what}: {len(ratios)}"
    reach = 1.96 * stdev(map(math.log, ratios)) / math.sqrt(len(ratios))
    bounds = (_mean(ratios) * math.exp(sign * reach) for sign in (-1, 1))
    low, high = (f"{each:.3f}" for each in bounds)
    return (
        f"{what}: {len(ratios)} programs, the stopwatch's gain over the one that was told "
        f"{_mean(ratios):.3f} ({low} to {high}), median {median(ratios):.3f}; "
        f"below the interval {sum(each.timed < each.low for each in found)}, "
        f"above {sum(each.timed > each.high for each in found)}"
    )


def main(arguments: Sequence[str]) -> None:
    """Print each claim, and what they are together and with each of some settings."""
    found = claims(Path(*arguments) if arguments else Path("reports/programs"))
    for each in sorted(found, key=lambda claim: claim.ratio):
        told = f"told {each.told:.2f} ({each.low:.2f} to {each.high:.2f})"
        timed = f"timed {each.timed:.2f} over {each.pairs}"
        print(f"{each.ratio:.3f}  {each.program}: {told}, {timed}; {each.settings}")
    print(summary(found, "all"))
    half = median(math.sqrt(each.high / each.low) for each in found) - 1
    print(f"Half of the intervals reach no more than {100 * half:.0f} % to either side.")
    of_a_pair = {name: scatter(found, name) for name in (BY_ITSELF, IN_TURNS)}
    beyond = denied(found, of_a_pair)
    one, other = (f"{100 * of_a_pair[name]:.0f} %" for name in (BY_ITSELF, IN_TURNS))
    print(
        f"A pair of runs one after another scatters by {one}, a pair in turns by {other}. Further "
        f"apart than both errors allow: {len(beyond)} "
        f"({', '.join(each.program for each in beyond) or 'none'})"
    )
    for setting in SETTINGS:
        with_it = [each for each in found if setting in each.settings]
        without = [each for each in found if setting not in each.settings]
        print(summary(with_it, f"with {setting}"))
        print(summary(without, f"without {setting}"))


if __name__ == "__main__":
    main(sys.argv[1:])
