"""How often would autotune claim a difference that is not there, and find one that is?

Turns of two contestants are drawn from a model of what was seen on real machines, and judged as
`search` judges them. Run it as a program for the table that the plan of turns was chosen from:

    python -m tests.bench.simulation [--rounds 2000]
"""

import argparse
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from autotune.measurement.statistics import (
    LOOKS,
    TURNS_PER_PROCESS,
    Pair,
    Timed,
    confidence_per_look,
    ratio_in_turns,
)

TURN_SECONDS = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Scatter of log-throughput: of each turn, of each process for its life; and stalls that
    nothing marked.
    """

    turn: float = 0.05
    correlation: float = 0.3
    process: float = 0.025
    stalls: float = 0.01
    slowest: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many pairs of fresh processes, how many turns each, and after how many pairs each look is
    taken.
    """

    turns: int
    looks: tuple[int, ...]


def process(true_rate: float, noise: Noise, chance: random.Random) -> Iterator[Timed]:
    """The turns of one live process, without end."""
    own = chance.gauss(0.0, noise.process)
    state = chance.gauss(0.0, 1.0)
    while True:
        speed = true_rate * math.exp(own + noise.turn * state)
        if chance.random() < noise.stalls:
            speed *= chance.uniform(noise.slowest, 1.0)
        yield round(speed * TURN_SECONDS), TURN_SECONDS
        fresh = math.sqrt(1 - noise.correlation**2)
        state = noise.correlation * state + fresh * chance.gauss(0.0, 1.0)


def process_pair(speedup: float, turns: int, noise: Noise, chance: random.Random) -> list[Pair]:
    """The turns of a fresh process of each contestant."""
    first, second = process(1000.0, noise, chance), process(1000.0 * speedup, noise, chance)
    return [(next(first), next(second)) for _ in range(turns)]


def claims(speedup: float, plan: Plan, noise: Noise, chance: random.Random) -> str:
    """What is claimed at the first look that claims anything: "faster", "slower" or ""."""
    confidence = confidence_per_look(len(plan.looks))
    seen: list[list[Pair]] = []
    for pairs in plan.looks:
        while len(seen) < pairs:
            seen.append(process_pair(speedup, plan.turns, noise, chance))
        ratio = ratio_in_turns(seen, confidence=confidence)
        if ratio.low > 1:
            return "faster"
        if ratio.high < 1:
            return "slower"
    return ""


def claim_shares(
    speedup: float, plan: Plan, noise: Noise, *, rounds: int, seed: int = 0
) -> dict[str, float]:
    """Share of `rounds` in which each claim was made."""
    chance = random.Random(seed)
    made = [claims(speedup, plan, noise, chance) for _ in range(rounds)]
    return {claim: made.count(claim) / rounds for claim in ("faster", "slower", "")}


NOISES = {
    "usual": Noise(),
    "calm": Noise(turn=0.02, process=0.005, stalls=0.0),
    "processes differ": Noise(process=0.05),
    "rough": Noise(turn=0.12, correlation=0.5, process=0.03, stalls=0.05),
}
DEFAULT_PLAN = Plan(turns=TURNS_PER_PROCESS, looks=LOOKS)
PLANS = (
    DEFAULT_PLAN,
    Plan(turns=8, looks=(4,)),
    Plan(turns=8, looks=(2, 4, 6)),
    Plan(turns=8, looks=(1, 3, 6)),
    Plan(turns=5, looks=(1, 4, 8)),
)


def main() -> None:
    """Print false claims of two identical programs, and differences found, by noise and plan."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    rounds = parser.parse_args().rounds
    for name, noise in NOISES.items():
        print(f"{name}: {noise}")
        for plan in PLANS:
            false = 1 - claim_shares(1.0, plan, noise, rounds=rounds)[""]
            found = [
                claim_shares(s, plan, noise, rounds=rounds)["faster"] for s in (1.05, 1.1, 1.2)
            ]
            shares = "  ".join(f"{share:6.1%}" for share in found)
            planned = f"{plan.turns:2} turns, looks {plan.looks}"
            print(f"  {planned}: false {false:5.1%}   5/10/20 % found {shares}")


if __name__ == "__main__":
    main()
