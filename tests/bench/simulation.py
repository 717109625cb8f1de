"""How often would autotune claim a difference that is not there, and find one that is?

Turns of two contestants are drawn from a model of what was seen on real machines, or from what
`tests.bench.honesty` recorded on one, and judged as `search` judges them: at the planned looks, on
and on until the answer is clear and precise. Run it as a program for the table that the plan of
turns was chosen from:

    python -m tests.bench.simulation [--rounds 2000] [--recorded reports/bench/honesty.jsonl]
"""

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from autotune.measurement.ratios import (
    FEWEST_TURNS_PER_PROCESS,
    LOOKS,
    MOST_TURNS_PER_PROCESS,
    Pair,
    Ratio,
    are_enough_turns,
    confidence_per_look,
    ratio_in_turns,
)
from autotune.measurement.statistics import Timed
from autotune.verdict.clear import MINIMUM_GAIN, is_clear

TURN_SECONDS = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Scatter of log-throughput: of each turn, of each process for its life; stalls that nothing
    marked, of one contestant's turn; and bursts of other work, which slow down whoever's turn it is
    for a few turns.
    """

    turn: float = 0.05
    correlation: float = 0.3
    process: float = 0.025
    stalls: float = 0.01
    slowest: float = 0.05
    bursts: float = 0.0  # share of the time
    burst_turns: float = 4.0
    burst_speed: float = 0.6
    drift: float = 0.0  # by how much the machine slows down from one turn to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The fewest and the most turns that a pair of fresh processes takes, and after how many pairs
    each look is taken; the last is also taken where the time for more has run out.
    """

    turns: tuple[int, int]
    looks: tuple[int, ...]


# Gives the turns of a fresh process of each contestant, of two whose true ratio is the argument.
Draw = Callable[[float], list[Pair]]


def process(true_rate: float, noise: Noise, chance: random.Random) -> Iterator[float]:
    """The speed of one live process turn by turn, without end."""
    own = chance.gauss(0.0, noise.process)
    state = chance.gauss(0.0, 1.0)
    while True:
        speed = true_rate * math.exp(own + noise.turn * state)
        if chance.random() < noise.stalls:
            speed *= chance.uniform(noise.slowest, 1.0)
        yield speed
        fresh = math.sqrt(1 - noise.correlation**2)
        state = noise.correlation * state + fresh * chance.gauss(0.0, 1.0)


def machine(noise: Noise, chance: random.Random) -> Iterator[float]:
    """How fast the machine is from one contestant's turn to the next."""
    slow = chance.random() < noise.bursts
    ends = 1 / noise.burst_turns
    begins = ends * noise.bursts / (1 - noise.bursts)
    speed = 1.0
    while True:
        yield speed * (noise.burst_speed if slow else 1.0)
        speed *= 1 - noise.drift
        slow = chance.random() > ends if slow else chance.random() < begins


def process_pair(
    speedup: float, turns: tuple[int, int], noise: Noise, chance: random.Random
) -> list[Pair]:
    """The turns of a fresh process of each contestant, who goes first changing turn by turn: the
    fewest of `turns`, and up to the most of them where they scatter.
    """
    fewest, most = turns
    first, second = process(1000.0, noise, chance), process(1000.0 * speedup, noise, chance)
    around = machine(noise, chance)

    def timed(contestant: Iterator[float]) -> Timed:
        return round(next(contestant) * next(around) * TURN_SECONDS), TURN_SECONDS

    pairs: list[Pair] = []
    for turn in range(most):
        if turn % 2 == 0:
            one, other = timed(first), timed(second)
        else:
            other, one = timed(second), timed(first)
        pairs.append((one, other))
        if turn + 1 >= fewest and are_enough_turns(pairs):
            break
    return pairs


@dataclass(slots=True)
class Recorded:
    """Draws from comparisons of two identical programs that were recorded on a live machine.

    The rounds of one comparison stay together, since the machine was what it was through all of
    them. Who is who is thrown anew for each: it makes no difference between identical programs.
    """

    comparisons: Sequence[Sequence[Sequence[Pair]]]
    chance: random.Random
    _rest: list[Sequence[Pair]]

    @classmethod
    def of(cls, path: Path, chance: random.Random) -> "Recorded":
        """What `tests.bench.honesty` wrote; only of identical programs."""
        comparisons = []
        for text in path.read_text().splitlines():
            line = json.loads(text)
            if line["case"].startswith("A/A") and line["rounds"]:
                turns = zip(line["turns"]["baseline"], line["turns"]["tuned"], strict=True)
                comparisons.append([[next(turns) for _ in range(n)] for n in line["rounds"]])
        return cls(comparisons, chance, [])

    def begin(self) -> None:
        """What follows is another comparison."""
        self._rest = list(self.chance.choice(self.comparisons))

    def draw(self, speedup: float) -> list[Pair]:
        """The turns of a process of each, the second's samples multiplied by `speedup`."""
        if not self._rest:
            self.begin()
        turns = self._rest.pop(0)
        swapped = self.chance.random() < 0.5
        return [
            (first, (second[0] * speedup, second[1]))  # type: ignore[misc]
            for first, second in ((b, a) if swapped else (a, b) for a, b in turns)
        ]


def judged(speedup: float, plan: Plan, draw: Draw) -> tuple[str, Ratio]:
    """What is claimed in the end, "faster", "slower" or "", and the ratio."""
    confidence = confidence_per_look(len(plan.looks))
    seen: list[list[Pair]] = []
    for pairs in plan.looks:
        while len(seen) < pairs:
            seen.append(draw(speedup))
        ratio = ratio_in_turns(seen, confidence=confidence)
        if is_clear(ratio):
            break
    if ratio.low > 1 and ratio.estimate >= MINIMUM_GAIN:
        return "faster", ratio
    return "slower" if ratio.high < 1 else "", ratio


def claim_shares(
    speedup: float, plan: Plan, noise: Noise, *, rounds: int, seed: int = 0
) -> dict[str, float]:
    """Share of `rounds` in which each claim was made, of programs in `noise`."""
    chance = random.Random(seed)
    draw = partial(process_pair, turns=plan.turns, noise=noise, chance=chance)
    made = [judged(speedup, plan, draw)[0] for _ in range(rounds)]
    return {claim: made.count(claim) / rounds for claim in ("faster", "slower", "")}


NOISES = {
    "usual": Noise(),
    "calm": Noise(turn=0.02, process=0.005, stalls=0.0),
    "processes differ": Noise(process=0.05),
    "rough": Noise(turn=0.12, correlation=0.5, process=0.03, stalls=0.05),
    "alike turns": Noise(turn=0.08, correlation=0.8),
    "short bursts": Noise(bursts=0.3, burst_turns=1.5),
    "long bursts": Noise(bursts=0.3, burst_turns=8.0),
    "slowing down": Noise(drift=0.02),
}
DEFAULT_PLAN = Plan(turns=(FEWEST_TURNS_PER_PROCESS, MOST_TURNS_PER_PROCESS), looks=LOOKS)
PLANS = (
    DEFAULT_PLAN,
    Plan(turns=(5, 5), looks=(1, 4, 8)),
    Plan(turns=(5, 15), looks=(1, 2)),  # a budget of a minute ends it
    Plan(turns=(5, 15), looks=(1, 2, 4, 8)),
    Plan(turns=(5, 15), looks=(1, 3, 6)),
    Plan(turns=(8, 8), looks=(2, 4, 6)),
)
SPEEDUPS = (1.05, 1.1, 1.2)


def _show(plan: Plan, draw: Draw, begin: Callable[[], None], rounds: int) -> None:
    """A line: false claims, differences found, and by how much the claimed ones are overstated."""

    def comparisons(speedup: float) -> list[tuple[str, Ratio]]:
        made = []
        for _ in range(rounds):
            begin()
            made.append(judged(speedup, plan, draw))
        return made

    false = sum(claim != "" for claim, _ in comparisons(1.0)) / rounds
    shares, excess = [], []
    for speedup in SPEEDUPS:
        found = [ratio for claim, ratio in comparisons(speedup) if claim == "faster"]
        shares.append(f"{len(found) / rounds:6.1%}")
        excess.append(
            f"{fmean(ratio.estimate for ratio in found) / speedup - 1:+6.1%}" if found else "     -"
        )
    print(
        f"  {plan.turns[0]}-{plan.turns[1]} turns, looks {plan.looks}: false {false:5.1%}   "
        f"5/10/20 % found {'  '.join(shares)}, their figure off by {'  '.join(excess)}"
    )


def main() -> None:
    """Print false claims of two identical programs, and differences found, by noise and plan."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--recorded", type=Path, help="comparisons that honesty recorded")
    arguments = parser.parse_args()
    chance = random.Random(0)
    if arguments.recorded:
        recorded = Recorded.of(arguments.recorded, chance)
        print(f"recorded: {len(recorded.comparisons)} comparisons of {arguments.recorded}")
        _show(DEFAULT_PLAN, recorded.draw, recorded.begin, arguments.rounds)
        return
    for name, noise in NOISES.items():
        print(f"{name}: {noise}")
        for plan in PLANS:
            draw = partial(process_pair, turns=plan.turns, noise=noise, chance=chance)
            _show(plan, draw, lambda: None, arguments.rounds)


if __name__ == "__main__":
    main()
