"""Strategies that look for the fastest configuration of a measured grid, a look-up at a time."""

import contextlib
import math
import random
from collections.abc import Callable, Mapping, Sequence

import optuna

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Measurement
from autotune.trials.planner import Z_95, Planner, Ranked
from autotune.trials.trial import Trial
from tests import builders
from tests.bench.foreknowledge import costs_of, expected_of
from tests.bench.grids import Key, Table

MOST_TRIALS = 60
LEAST_INTERVAL = 0.05  # of a trial, to either side
FEWEST_EXPLORED = 3  # trials, the user's own setting among them, before any is measured again
AGAIN = 3 / 8  # of noisy trials measure again what may be the best


class Enough(Exception):
    """The strategy has had its trials."""


class NotThere(Exception):
    """The table has no such configuration."""


class Asked:
    """The rates of a table's configurations, as a strategy sees them: with `noise`, the standard
    deviation of the rate's logarithm, by `chance`, by another where one is measured `later` again.
    `look` is called after each trial.
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
        self._again: dict[Key, list[float]] = {}
        self._look = look
        self._repeats = 0

    def __call__(self, config: Config) -> float:
        """The rate of a trial. A configuration asked for again is none: its figure is known.

        Raises:
            Enough: there are no more trials.
            NotThere: it cannot be tried.
        """
        key = self._table.key(config)
        if key in self.seen or key not in self._table.rows:
            self._repeats += 1
            if self._repeats > 100 * MOST_TRIALS:
                raise Enough
            if key not in self.seen:
                raise NotThere
            return self.seen[key]
        if len(self.seen) >= min(MOST_TRIALS, len(self._table.rows)):
            raise Enough
        self.seen[key] = self._rate(key, self._chance)
        self._look(self)
        return self.seen[key]

    def again(self, config: Config, times: int) -> float:
        """The rate of a configuration that was measured so many `times`, measured once more."""
        key = self._table.key(config)
        rates = self._again.setdefault(key, [])
        while len(rates) < times:
            rates.append(self._rate(key, self._later))
        return rates[times - 1]

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
    highest of noisy rates: of as many trials as there were, some went to measuring again what may
    be the best. Without noise there is nothing to measure again.
    """
    if ask.noise == 0:
        return highest(table, ask)
    seen = list(ask.seen.items())
    again = max(0, min(round(AGAIN * len(seen)), len(seen) - FEWEST_EXPLORED))
    planner = _planner(table)
    trials = [
        _trial(number, dict(key), rate, ask.noise)
        for number, (key, rate) in enumerate(seen[: len(seen) - again])
    ]
    for _ in range(again):
        config = _less_known(planner.ranked(trials))
        times = sum(trial.config == config for trial in trials)
        trials.append(_trial(len(trials), config, ask.again(config, times), ask.noise))
    return frozenset(planner.ranked(trials)[0].trial.config.items())


def _less_known(ranked: Sequence[Ranked]) -> Config:
    """Of the best and the one that is likeliest to be better, the one that is less known (as
    top-two sampling takes turns between them: Russo 2016, arXiv:1602.08448).
    """
    best = ranked[0]
    rivals = [each for each in ranked if each.trial.config != best.trial.config] or [best]
    rival = max(rivals, key=lambda each: (each.mean - best.mean) / math.hypot(each.sd, best.sd))
    return max(best, rival, key=lambda each: each.sd).trial.config


def highest(table: Table, ask: Asked) -> Key:
    """The row that looked fastest: what Optuna calls the best trial."""
    return max(ask.seen, key=ask.seen.__getitem__)


def _planner(table: Table) -> Planner:
    return Planner(costs_of(table), table.own, map(dict, table.rows), expected_of(table))


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


Guess = Callable[[Table, random.Random, Asked], None]
Recommend = Callable[[Table, Asked], Key]


def sampled(sampler: Callable[[int], optuna.samplers.BaseSampler]) -> Guess:
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
            except NotThere:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)

    return guess


def coordinate(table: Table, chance: random.Random, ask: Asked) -> None:
    """One knob after another, each left at its best value, the largest phase's first."""
    best, speed = dict(table.own), ask({})
    while True:
        for name in _by_share(table):
            for value in table.choices[name]:
                config = {**best, name: value}
                with contextlib.suppress(NotThere):
                    if (found := ask(config)) > speed:
                        best, speed = config, found


def _by_share(table: Table) -> list[str]:
    costs = costs_of(table)
    shares = {"data": costs.loader, "compute": costs.compute, "optimizer": costs.optimizer}
    phase = {name: expectation.phase for (name, _), expectation in expected_of(table)}
    phase |= {"num_workers": "data", "fetch_threads": "data", "threads": "compute"}
    return sorted(table.choices, key=lambda name: -shares.get(phase.get(name, ""), 0.0))


STRATEGIES: Mapping[str, Guess] = {
    "profile": profile_guided,
    "tpe": sampled(lambda seed: optuna.samplers.TPESampler(seed=seed)),
    "gp": sampled(lambda seed: optuna.samplers.GPSampler(seed=seed)),
    "random": sampled(lambda seed: optuna.samplers.RandomSampler(seed=seed)),
    "coordinate": coordinate,
}
BY_CHANCE = ("tpe", "gp", "random")  # those that differ from one seed to the next without noise
RECOMMENDS: Mapping[str, Recommend] = {"profile": most_likely}
