"""What a trial takes, in seconds: where one takes far longer than another, that must be earned."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from autotune.knobs import by_name
from autotune.knobs.knob import Config, Value
from autotune.measurement.measurement import Measurement
from autotune.profiling.profile import Profile
from autotune.trials.space import Space
from autotune.trials.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCosts:
    """What trials take, before any was run.

    `usual_seconds` is one of settings that cost nothing by themselves; `delay_seconds` is what
    those that do (compiling) add to it.
    """

    usual_seconds: float = 1.0
    delay_seconds: Mapping[tuple[str, Value], float] = field(default_factory=dict)

    def delay(self, config: Config) -> float:
        """Seconds by which `config` is known to take longer than others."""
        return sum(self.delay_seconds.get(setting, 0.0) for setting in config.items())

    def learned(self, trials: Sequence[Trial]) -> "TrialCosts":
        """The same after `trials`: what one took is better known than what it should take. One that
        hung says nothing of what others take.
        """
        tried = [trial for trial in trials if trial.config and trial.seconds > 0]
        ended = (trial for trial in tried if isinstance(trial.outcome, Measurement))
        plain = [trial.seconds for trial in ended if not self.delay(trial.config)]
        usual = fmean(plain) if plain else self.usual_seconds
        delays = dict(self.delay_seconds)
        for name, value in self.delay_seconds:
            took = [trial.seconds for trial in tried if trial.config.get(name) == value]
            if took:
                delays[name, value] = max(0.0, fmean(took) - usual)
        return TrialCosts(usual_seconds=usual, delay_seconds=delays)

    def seconds(self, configs: Iterable[Config]) -> list[float]:
        """What a trial of each of `configs` takes."""
        if not self.delay_seconds:
            return [self.usual_seconds for _ in configs]
        return [self.usual_seconds + self.delay(config) for config in configs]


def costs_of_trials(space: Space, profile: Profile, usual_seconds: float) -> TrialCosts:
    """What trials in `space` of the program of `profile` take, by what each knob says of itself."""
    delays = {
        (name, value): seconds
        for name, values in space.choices.items()
        for value in values
        if value != space.own[name] and (seconds := by_name(name).delay_seconds(value, profile)) > 0
    }
    return TrialCosts(usual_seconds=usual_seconds, delay_seconds=delays)
