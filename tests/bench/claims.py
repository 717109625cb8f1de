"""Whether the gains that searches of other people's programs told are those of the stopwatch.

    python -m tests.bench.claims [reports/programs]

Each program that was handed back faster and timed, as it is and patched, in whole processes of some
seconds in turns (`steps_by_stopwatch.tsv`), is held against what its search said
(`delivered_of_*.tsv`): steps a second without the long gaps between epochs. A program whose first
pair came out low was mostly timed in several: its mean counts as one.
"""

import csv
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

OWN, PATCHED = "own", "patched"
SETTINGS = ("num_workers", "keep_freed_memory", "precision", "threads", "optimizer")


@dataclass(frozen=True, slots=True)
class Claim:
    """A gain that was told, with its interval, and the stopwatch's over so many pairs of runs."""

    program: str
    settings: str
    told: float
    low: float
    high: float
    timed: float
    pairs: int

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
                timed = _mean([each[PATCHED] / each[OWN] for each in pairs])
                bounds = float(row["low"]), float(row["high"])
                name, settings = row["program"], row["settings"]
                found.append(Claim(name, settings, told, *bounds, timed, len(pairs)))
    return found


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
    for setting in SETTINGS:
        with_it = [each for each in found if setting in each.settings]
        without = [each for each in found if setting not in each.settings]
        print(summary(with_it, f"with {setting}"))
        print(summary(without, f"without {setting}"))


if __name__ == "__main__":
    main(sys.argv[1:])
