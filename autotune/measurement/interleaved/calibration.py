"""How small a gain this machine lets a verdict tell, and in how long: a small training program is
held against itself, in turns, as a verdict holds the best against the baseline.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean, stdev

from autotune.errors import MeasurementError
from autotune.measurement.interleaved.turns import Turns, take_turns
from autotune.measurement.ratios import (
    LOOKS,
    Pair,
    Ratio,
    confidence_per_look,
    expected_variance,
    log_ratio,
    ratio_in_turns,
)
from autotune.measurement.statistics import student_t
from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target

# A gain counts as told if it is found in so many of 100 searches.
POWER = 0.80
GAINS = (0.02, 0.05, 0.10, 0.20)
WARM_SECONDS = 2.4  # what a search of a minute allows
FEWEST_ROUNDS = 3  # of fewer the scatter between processes is not known
MOST_ROUNDS = 1000

# As small as a training program can be and still do what most do: read batches, multiply matrices
# with all threads, update weights. About 3 ms a step on two cores.
PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

samples = torch.randn(4096, 256)
loader = DataLoader(TensorDataset(samples, samples), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
while True:
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tellable:
    """A gain, as a share, and the seconds of taking turns after which a verdict tells it in 80 of
    100 searches. `within_a_search` is false where a search stops measuring before that.
    """

    gain: float
    seconds: float
    within_a_search: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """This machine's noise, from one program timed against itself.

    Attributes:
        rounds: pairs of fresh processes that were timed.
        round_seconds: what a pair costs, its start and warm-up included.
        turn_scatter: standard deviation of the log-ratio of two neighbouring turns.
        pair_scatter: standard deviation of the log-ratio of two processes, over their turns.
        ratio: of the program to itself; its interval should hold 1.
        left_out: turns that were spoilt because another program had the processors.
        smallest_gain: that a search can tell, as a share; it measures no longer.
        tellable: by gain.
    """

    rounds: int
    round_seconds: float
    turn_scatter: float
    pair_scatter: float
    ratio: Ratio
    left_out: int
    smallest_gain: float
    tellable: tuple[Tellable, ...]


def calibrate(
    budget_seconds: float, *, cores: int, after_round: Callable[[int], None] = lambda _: None
) -> Calibration:
    """Time a small program against itself for about `budget_seconds`, three rounds at the least;
    `after_round` is told how many there are.

    Raises:
        MeasurementError: other programs had the processors, or the program could not be run.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="autotune-calibrate-") as folder:
        program = Path(folder) / "calibration.py"
        program.write_text(PROGRAM)
        with Workbench(load_target(program)) as bench:
            warm = time.monotonic()

            def enough(turns: Turns) -> bool:
                rounds = len(turns.windows["one"])
                after_round(rounds)
                now = time.monotonic()
                late = now + (now - warm) / rounds > began + budget_seconds
                return bool(turns.failures) or (rounds >= FEWEST_ROUNDS and late)

            turns = take_turns(
                {"one": bench.start, "other": bench.start},
                rounds=MOST_ROUNDS,
                deadline=math.inf,
                warm_seconds=WARM_SECONDS,
                after_round=enough,
            )
            seconds = time.monotonic() - warm
    for failure in turns.failures.values():
        raise MeasurementError(f"The program that measures the noise failed: {failure.reason}.")
    return conclude(*_fair_pairs(turns, cores), seconds=seconds)


def _fair_pairs(turns: Turns, cores: int) -> tuple[list[list[Pair]], int]:
    """The turns of each pair of processes that count, and how many others."""
    rounds: list[list[Pair]] = []
    left_out = 0
    for number in range(len(turns.windows["one"])):
        fair, spoilt = turns.fair(number, cores=cores)
        left_out += spoilt
        if pairs := list(zip(fair.get("one", ()), fair.get("other", ()), strict=True)):
            rounds.append(pairs)
    return rounds, left_out


def conclude(rounds: Sequence[Sequence[Pair]], left_out: int, *, seconds: float) -> Calibration:
    """What the turns of a program against itself say of the machine, by pair of processes, without
    spoilt ones, of which so many were left out; all of it took `seconds`.

    Raises:
        MeasurementError: too few turns were undisturbed.
    """
    kept = sum(map(len, rounds))
    if len(rounds) < FEWEST_ROUNDS or left_out > kept:
        raise MeasurementError(
            "The machine is too busy to measure its noise: other programs, or its host, spoilt "
            f"{left_out} of {left_out + kept} turns.",
            "Stop other programs, and calibrate again.",
        )
    round_seconds = seconds / len(rounds)
    pair_logs = [log_ratio(turns) for turns in rounds]
    pair_scatter = stdev(pair_logs)
    expected, weight = expected_variance(rounds)

    def smallest(pairs: int) -> float:
        return _smallest_gain(pairs, pair_scatter, expected, weight)

    return Calibration(
        rounds=len(rounds),
        round_seconds=round_seconds,
        turn_scatter=fmean(_scatter(turns) for turns in rounds),
        pair_scatter=pair_scatter,
        ratio=ratio_in_turns(rounds),
        left_out=left_out,
        smallest_gain=smallest(LOOKS[-1]),
        tellable=tuple(_tellable(gain, smallest, round_seconds) for gain in GAINS),
    )


def _smallest_gain(pairs: int, pair_scatter: float, expected: float, weight: float) -> float:
    """The gain that is told after so many pairs of processes.

    It is told when the interval of `ratio_in_turns`, as wide as it comes out on average, excludes
    1, also where the estimate falls short of the gain as far as chance lets it in 80 of 100. Their
    log-ratios scatter by `pair_scatter`, of which it expects the variance `expected`, worth so many
    degrees of freedom.
    """
    degrees = weight + pairs - 1
    moderated = weight * expected + (pairs - 1) * pair_scatter**2
    reach = student_t(confidence_per_look(len(LOOKS)), degrees) * math.sqrt(moderated / degrees)
    luck = NormalDist().inv_cdf(POWER) * pair_scatter
    return math.expm1((reach + luck) / math.sqrt(pairs))


def _scatter(turns: Sequence[Pair]) -> float:
    logs = [log_ratio([turn]) for turn in turns]
    return stdev(logs) if len(logs) > 1 else 0.0


def _tellable(gain: float, smallest: Callable[[int], float], round_seconds: float) -> Tellable:
    """After how long `gain` is told: at a planned look of a search, or after the pairs that it
    would take.
    """
    looks = [*LOOKS, *range(LOOKS[-1] + 1, MOST_ROUNDS)]
    pairs = next((pairs for pairs in looks if smallest(pairs) <= gain), MOST_ROUNDS)
    return Tellable(gain=gain, seconds=pairs * round_seconds, within_a_search=pairs <= LOOKS[-1])
