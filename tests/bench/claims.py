"""Whether the gains that searches of other people's programs told are those of the stopwatch.

    python -m tests.bench.claims [reports/programs]

Each program that was handed back faster and timed, as it is and patched, in whole processes of some
seconds in turns (`steps_by_stopwatch.tsv`), is held against what its search said
(`delivered_of_*.tsv`): steps a second without the long gaps between epochs. A program whose first
pair came out low was mostly timed in several: its mean counts as one.

The stopwatch is wrong too. How much a pair of runs scatters is by the programs that were timed in
four pairs or more, without the first, which decided that there were more.
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
FEWEST_PAIRS = 4
Z_OF_INTERVALS = 2.29  # they are told with 97.8 % confidence
SETTINGS = ("num_workers", "keep_freed_memory", "precision", "threads", "optimizer")


@dataclass(frozen=True, slots=True)
class Claim:
    """A gain that was told, with its interval, and the stopwatch's of each pair of runs."""

    program: str
    settings: str
    told: float
    low: float
    high: float
    each: tuple[float, ...]

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
    runs: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in _rows(folder / "steps_by_stopwatch.tsv"):
        rate = float(row["without_long_gaps"])
        runs[row["program"]][row["pair"]][row["source"]] = rate
    found = []
    for path in sorted(folder.glob("delivered_of_*.tsv")):
        for row in _rows(path):
            pairs = [each for each in runs[row["program"]].values() if {OWN, PATCHED} <= set(each)]
            told = float(row["handed_back"] or 0.0)
            if pairs and told > 1:
                gains = tuple(each[PATCHED] / each[OWN] for each in pairs)
                bounds = float(row["low"]), float(row["high"])
                found.append(Claim(row["program"], row["settings"], told, *bounds, gains))
    return found


def scatter(found: Sequence[Claim]) -> float:
    """The standard deviation of the logarithm of what the stopwatch has for one pair of runs."""
    several = [
        list(map(math.log, claim.each[1:])) for claim in found if claim.pairs >= FEWEST_PAIRS
    ]
    squares = sum(variance(each) * (len(each) - 1) for each in several)
    return math.sqrt(squares / sum(len(each) - 1 for each in several))


def denied(found: Sequence[Claim], of_a_pair: float) -> list[Claim]:
    """The claims that lie further from the stopwatch's gain than the errors of both allow, with the
    confidence of their intervals; `of_a_pair` is the stopwatch's, as a logarithm.
    """
    reach = [
        math.hypot(
            math.log(each.high / each.low) / 2, Z_OF_INTERVALS * of_a_pair / math.sqrt(each.pairs)
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
    of_a_pair = scatter(found)
    beyond = denied(found, of_a_pair)
    print(
        f"One pair of runs scatters by {100 * of_a_pair:.0f} %. Further apart than both errors "
        f"allow: {len(beyond)} ({', '.join(each.program for each in beyond) or 'none'})"
    )
    for setting in SETTINGS:
        with_it = [each for each in found if setting in each.settings]
        without = [each for each in found if setting not in each.settings]
        print(summary(with_it, f"with {setting}"))
        print(summary(without, f"without {setting}"))


if __name__ == "__main__":
    main(sys.argv[1:])
