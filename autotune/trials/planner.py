"""What to try next: the configuration from which most is to be expected for the time that trying it
takes, by a model of the loop that knows the profile and every trial so far.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.knobs.knob import Config, Expectation, Value
from autotune.measurement.measurement import Measurement
from autotune.trials.closing import FEEDING, Key, closed_by, key_of, most_workers
from autotune.trials.costs import TrialCosts
from autotune.trials.loop import Array, Costs
from autotune.trials.performance import Measured, PerformanceModel, expected_improvement
from autotune.trials.trial import Trial

# Two processes of one program differ by so much, whatever the scatter inside each (logarithm).
PROCESS_SD = 0.05
Z_95 = 1.96
# A change from which less is expected is left out: every change must be read by someone.
WORTH_A_CHANGE = 0.003
# Within these shares of what training reaches with batches always at hand, faster loading is done
# with: below, knobs are not searched either (3 %); above, that ceiling was measured too low.
CEILING_REACHED = (0.97, 1.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A Config, by what share it is expected to be faster than the best so far, and what trying it
    takes.
    """

    config: Config
    expected_gain: float
    seconds: float

    @property
    def gain_per_second(self) -> float:
        """What a second of trying it is expected to gain, as a share."""
        return self.expected_gain / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A measured trial, with what the model and the measurement together say of its log rate."""

    trial: Trial
    mean: float
    sd: float


class Planner:
    """Proposes what to try next.

    Args:
        costs: of the program as it is.
        own: its value for every knob.
        candidates: what may be tried, each as its difference from `own`.
        expected: what each value of a knob should do, to one phase or to several.
        trial_costs: what trying a configuration takes.
        neighbours: more candidates, near one that turned out fast.
        feeding_ceiling: samples/s of the program as it is with batches always at hand, where known.
        memory_limit_bytes: what a configuration may need at its peak.
        admits: whether a configuration may be handed back: others were tried by searches that were
            allowed more, and tell how fast something is.
    """

    def __init__(
        self,
        costs: Costs,
        own: Config,
        candidates: Iterable[Config],
        expected: Iterable[tuple[tuple[str, Value], Expectation]],
        *,
        trial_costs: TrialCosts | None = None,
        neighbours: Callable[[Config], Iterable[Config]] = lambda _: (),
        feeding_ceiling: float | None = None,
        memory_limit_bytes: int | None = None,
        admits: Callable[[Config], bool] = lambda _: True,
    ) -> None:
        self._admits = admits
        self._costs = costs
        self._own = own
        self._expected = tuple(expected)
        self._trial_costs = trial_costs or TrialCosts()
        self._neighbours = neighbours
        self._feeding_ceiling = feeding_ceiling
        self._memory_limit_bytes = memory_limit_bytes
        self._built: tuple[int, PerformanceModel] | None = None  # of so many candidates
        self._candidates: dict[Key, Config] = {key_of({}): {}}
        self._candidates |= {key_of(config): config for config in candidates}

    def can_propose(self, trials: Sequence[Trial]) -> bool:
        """Whether anything was measured that a proposal could be based on."""
        return any(_speed(trial) > 0 for trial in trials)

    def is_late(self, config: Config, seconds_left: float) -> bool:
        """Whether a trial of `config` is known to take longer than `seconds_left`, in which it is
        to be judged as well: what takes long to start does so again then.
        """
        delay = self._trial_costs.delay(config)
        return delay > 0 and self._trial_costs.usual_seconds + 2 * delay > seconds_left

    def propose(
        self,
        trials: Sequence[Trial],
        *,
        begun: Collection[Config] = (),
        seconds_left: float = math.inf,
    ) -> Proposal | None:
        """The most promising configuration that neither was tried nor is `begun` by others, after
        `trials` of which one was measured at least; None when nothing is left. What is known to
        take longer than `seconds_left`, judging it included, is not proposed.
        """
        measured, means, scatters = self._fitted(trials)
        fit = [each for trial, each in measured if self._may_win(trial)]
        best = max((means[each.place] for each in fit), default=float(means.min()))
        gains = expected_improvement(means, scatters, best)
        costs = self._trial_costs.learned(trials)
        fed, workers = self.at_ceiling(trials), most_workers(trials, self._memory_limit_bytes)
        closed = closed_by(trials, self.fits, fed=fed is not None, workers=workers)
        taken = {key_of(trial.config) for trial in trials} | {key_of(config) for config in begun}
        seconds = costs.seconds(self._candidates.values())
        gains_of: dict[Key, float] = {}
        worth: dict[Key, float] = {}
        for key, gain, takes in zip(self._candidates, gains, seconds, strict=True):
            delay = costs.delay(self._candidates[key])
            late = delay > 0 and takes + delay > seconds_left
            if key not in taken and not late and not closed(key):
                gains_of[key], worth[key] = float(gain), float(gain) / takes
        if not worth:
            return None
        chosen = _simplest(max(worth, key=worth.__getitem__), gains_of)
        config = self._candidates[chosen]
        return Proposal(
            config=config,
            expected_gain=gains_of[chosen],
            seconds=costs.seconds([config])[0],
        )

    def ranked(self, trials: Sequence[Trial]) -> list[Ranked]:
        """The measured trials that fit into memory and may be handed back, the one that is most
        likely fastest first.

        The highest of many noisy rates is most likely too high; what the model expects of its
        settings tells how much of it is luck.
        """
        if not self.can_propose(trials):
            return []
        measured, means, scatters = self._fitted(trials)
        found = [
            Ranked(trial=trial, mean=float(means[each.place]), sd=float(scatters[each.place]))
            for trial, each in measured
            if self._may_win(trial)
        ]
        return sorted(found, key=lambda each: -each.mean)

    def fits(self, trial: Trial) -> bool:
        """Whether a trial was measured and kept below the memory limit. One whose peak is unknown
        may not have, unless it is the program as it is, which needs what it needs.
        """
        if not isinstance(trial.outcome, Measurement):
            return False
        limit, peak = self._memory_limit_bytes, trial.outcome.peak_bytes
        if limit is None or peak is None:
            return limit is None or not trial.config
        return peak <= limit

    def _may_win(self, trial: Trial) -> bool:
        return self.fits(trial) and self._admits(trial.config)

    def too_dear(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Knobs of which nothing was tried although it might have been, for the seconds that it
        takes at least.
        """
        tried = {name for trial in trials for name in trial.config}
        usual = self._trial_costs.learned(trials).usual_seconds
        least: dict[str, float] = {}
        for (name, _), seconds in self._trial_costs.delay_seconds.items():
            if name not in tried:
                least[name] = min(least.get(name, math.inf), usual + seconds)
        return least

    def at_ceiling(self, trials: Sequence[Trial]) -> Trial | None:
        """A trial that brings batches as fast as the program can take them, None without one."""
        ceiling, (least, most) = self._feeding_ceiling, CEILING_REACHED
        reached = (
            trial
            for trial in trials
            if ceiling is not None
            and isinstance(trial.outcome, Measurement)
            and least * ceiling <= trial.outcome.samples_per_second <= most * ceiling
            and FEEDING.issuperset(trial.config)
            and self._admits(trial.config)
        )
        return next(reached, None)

    def _fitted(self, trials: Sequence[Trial]) -> tuple[list[tuple[Trial, Measured]], Array, Array]:
        """The measured trials, and every candidate's expected log rate with its deviation."""
        for config in (*(trial.config for trial in trials), *self._near_the_fastest(trials)):
            self._candidates.setdefault(key_of(config), config)
        places = {key: place for place, key in enumerate(self._candidates)}
        measured = [
            (trial, each)
            for trial in trials
            if (each := _measured(trial, places[key_of(trial.config)])) is not None
        ]
        means, scatters = self._model().fit([each for _, each in measured])
        return measured, means, scatters

    def _near_the_fastest(self, trials: Sequence[Trial]) -> Iterable[Config]:
        fitting = [trial for trial in trials if self._may_win(trial)]
        best = max(fitting, key=_speed, default=None)
        return self._neighbours(best.config if best else {})

    def _model(self) -> PerformanceModel:
        if self._built is None or self._built[0] != len(self._candidates):
            whole = [{**self._own, **changes} for changes in self._candidates.values()]
            model = PerformanceModel(self._costs, self._own, whole, self._expected)
            self._built = len(whole), model
        return self._built[1]


def _simplest(key: Key, gains: Mapping[Key, float]) -> Key:
    """`key` without the changes from which next to nothing is expected, one after another."""
    for change in sorted(key, key=str):
        without = key - {change}
        if gains.get(without, -1.0) >= gains[key] - WORTH_A_CHANGE:
            return _simplest(without, gains)
    return key


def _measured(trial: Trial, place: int) -> Measured | None:
    if not isinstance(trial.outcome, Measurement) or trial.outcome.samples_per_second <= 0:
        return None
    low, high = trial.outcome.interval
    scatter = math.log(high / low) / (2 * Z_95) if low > 0 else 1.0
    return Measured(
        place=place,
        log_rate=math.log(trial.outcome.samples_per_second),
        sd=math.hypot(scatter, PROCESS_SD),
    )


def _speed(trial: Trial) -> float:
    return trial.outcome.samples_per_second if isinstance(trial.outcome, Measurement) else 0.0
