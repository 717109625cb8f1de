"""What to try next: the configuration from which most is to be expected, by a model of the loop
that knows the profile and every trial so far.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.knobs import by_name
from autotune.knobs.knob import Config, Expectation, Value
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import Profile
from autotune.trials.performance import (
    STRUCTURE,
    Costs,
    Measured,
    PerformanceModel,
    expected_improvement,
)
from autotune.trials.space import Space
from autotune.trials.trial import Trial

# Larger spaces are looked at in part: so many configurations by chance, and all that differ from
# the best so far in one setting.
MOST_CANDIDATES = 20_000
# Two processes of one program differ by so much, whatever the scatter inside each (logarithm).
PROCESS_SD = 0.05
Z_95 = 1.96
# A change from which less is expected is left out: every change must be read by someone.
WORTH_A_CHANGE = 0.003

Key = frozenset[tuple[str, Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A Config, and by what share it is expected to be faster than the best so far."""

    config: Config
    expected_gain: float


class Planner:
    """Proposes what to try next.

    Args:
        costs: of the program as it is.
        own: its value for every knob.
        candidates: what may be tried, each as its difference from `own`.
        expected: what each value of a knob should do.
        neighbours: more candidates, near one that turned out fast.
    """

    def __init__(
        self,
        costs: Costs,
        own: Config,
        candidates: Iterable[Config],
        expected: Mapping[tuple[str, Value], Expectation],
        *,
        neighbours: Callable[[Config], Iterable[Config]] = lambda _: (),
    ) -> None:
        self._costs = costs
        self._own = own
        self._expected = expected
        self._neighbours = neighbours
        self._candidates: dict[Key, Config] = {_key({}): {}}
        self._candidates |= {_key(config): config for config in candidates}

    def propose(self, trials: Sequence[Trial]) -> Proposal | None:
        """The most promising configuration not tried yet, None when nothing is left.

        Args:
            trials: so far; at least one was measured.
        """
        known = [trial.config for trial in trials]
        for config in (*known, *self._neighbours(_fastest(trials))):
            self._candidates.setdefault(_key(config), config)
        keys = list(self._candidates)
        measured = [each for trial in trials if (each := _measured(trial, keys)) is not None]
        means, scatters = self._model().fit(measured)
        best = max(means[each.place] for each in measured)
        gains = expected_improvement(means, scatters, best)
        tried = {_key(trial.config) for trial in trials}
        # What failed fails with more on top of it.
        failed = [_key(trial.config) for trial in trials if isinstance(trial.outcome, Failure)]
        open_gains = {
            key: float(gain)
            for key, gain in zip(keys, gains, strict=True)
            if key not in tried and not any(each <= key for each in failed)
        }
        if not open_gains:
            return None
        chosen = _simplest(max(open_gains, key=open_gains.__getitem__), open_gains)
        return Proposal(config=self._candidates[chosen], expected_gain=open_gains[chosen])

    def _model(self) -> PerformanceModel:
        whole = [{**self._own, **changes} for changes in self._candidates.values()]
        return PerformanceModel(self._costs, self._own, whole, self._expected)


def planner_for(space: Space, profile: Profile) -> Planner:
    """The planner of a search in `space` for the program of `profile`."""

    def neighbours(config: Config) -> Iterator[Config]:
        for name, values in space.choices.items():
            for value in values:
                yield space.difference({**config, name: value})

    return Planner(
        costs_of(profile),
        {**space.fixed, **space.own},
        _drawn(space),
        dict(_expectations(space, profile)),
        neighbours=neighbours,
    )


def _drawn(space: Space) -> Iterator[Config]:
    """Every configuration of `space`, or as many as can be looked at."""
    names, values = list(space.choices), list(space.choices.values())
    if space.size <= MOST_CANDIDATES:
        for combination in itertools.product(*values):
            yield space.difference(dict(zip(names, combination, strict=True)))
        return
    chance = random.Random(0)
    for _ in range(MOST_CANDIDATES):
        chosen = {name: chance.choice(of) for name, of in zip(names, values, strict=True)}
        yield space.difference(chosen)


def _simplest(key: Key, gains: Mapping[Key, float]) -> Key:
    """`key` without the changes from which next to nothing is expected, one after another."""
    for change in sorted(key, key=str):
        without = key - {change}
        if gains.get(without, -1.0) >= gains[key] - WORTH_A_CHANGE:
            return _simplest(without, gains)
    return key


def costs_of(profile: Profile) -> Costs:
    """What a sample of the profiled program costs, phase by phase.

    The loader's cost is that of a single process, from the drained loader where it was measured.
    """
    seconds = 1 / profile.samples_per_second
    phases = profile.phases
    loader = seconds * phases.get("data", 0.0)
    drained = profile.ceiling("data")
    if drained is not None and drained.samples_per_second:
        workers = profile.seen.loader.num_workers if profile.seen.loader else 0
        loader = max(1, workers) / drained.samples_per_second
    processor = min(1.0, profile.data_processor_share or 0.0)
    on_device = profile.machine.device != "cpu"
    return Costs(
        loader=loader,
        loader_processor=loader * processor,
        compute=seconds * (phases.get("forward", 0.0) + phases.get("backward", 0.0)),
        optimizer=seconds * phases.get("optimizer", 0.0),
        copy=seconds * phases.get("copy", 0.0),
        other=seconds * phases.get("other", 0.0),
        batch=max(1.0, profile.seen.samples_per_step),
        cores=float(profile.machine.cores),
        threads_compute=not on_device,
    )


def _expectations(
    space: Space, profile: Profile
) -> Iterator[tuple[tuple[str, Value], Expectation]]:
    """What each value should do, relative to the program's own."""
    for name, values in space.choices.items():
        if name in STRUCTURE:
            continue
        knob = by_name(name)
        own = knob.expects(space.own[name], profile)
        for value in values:
            if value != space.own[name]:
                there = knob.expects(value, profile)
                change = there.log_mean - own.log_mean
                yield (name, value), Expectation(phase=there.phase, log_mean=change, sd=there.sd)


def _measured(trial: Trial, keys: list[Key]) -> Measured | None:
    if not isinstance(trial.outcome, Measurement) or trial.outcome.samples_per_second <= 0:
        return None
    low, high = trial.outcome.interval
    scatter = math.log(high / low) / (2 * Z_95) if low > 0 else 1.0
    return Measured(
        place=keys.index(_key(trial.config)),
        log_rate=math.log(trial.outcome.samples_per_second),
        sd=math.hypot(scatter, PROCESS_SD),
    )


def _fastest(trials: Sequence[Trial]) -> Config:
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    best = max(measured, key=lambda trial: trial.outcome.samples_per_second, default=None)  # type: ignore[union-attr]
    return best.config if best else {}


def _key(config: Config) -> Key:
    return frozenset(config.items())
