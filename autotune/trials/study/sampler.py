"""The planner as a sampler of Optuna's, and Optuna's own held to the values that are searched."""

import functools
import random
from collections.abc import Callable
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from autotune.knobs import KNOBS
from autotune.knobs.knob import Value
from autotune.profiling.profile import Profile
from autotune.trials.keeping import PROFILE
from autotune.trials.knowledge import planner_for
from autotune.trials.planner import Planner, Proposal
from autotune.trials.space import Space
from autotune.trials.study.records import begun, known_trials
from autotune.workload.seen import Seen

Propose = Callable[[optuna.Study], Proposal | None]

_ADMITTED = {knob.name: knob.admits for knob in KNOBS}


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """`space` in Optuna's words: numbers as ranges, all else as everything that the knob admits.

    Of one name a study takes ranges of different ends, but always the same choices; so searches
    that were offered different values, by other profiles or by their users, share one study.
    """
    return {name: _distribution(name, values) for name, values in space.choices.items()}


def _distribution(name: str, values: tuple[Value, ...]) -> BaseDistribution:
    if all(type(value) is int for value in values):
        return IntDistribution(min(values), max(values))  # type: ignore[arg-type]  # they are whole
    admitted = _ADMITTED.get(name, values)
    return CategoricalDistribution(tuple(dict.fromkeys((*admitted, *values))))


def suggest(trial: optuna.Trial, space: Space) -> dict[str, Value]:
    """A value for each knob of `space`, as the study's sampler suggests it for `trial`."""
    suggested: dict[str, Value] = {}
    for name, distribution in distributions(space).items():
        if isinstance(distribution, IntDistribution):
            suggested[name] = trial.suggest_int(name, distribution.low, distribution.high)
        elif isinstance(distribution, CategoricalDistribution):
            value = trial.suggest_categorical(name, distribution.choices)
            assert isinstance(value, (bool, int, str)), "knobs have no other values"
            suggested[name] = value
    return suggested


def _proposed(planner: Planner, space: Space, seen: Seen, study: optuna.Study) -> Proposal | None:
    found = study.get_trials(deepcopy=False)
    trials = known_trials(found, space, seen, of_optunas_loop=True)
    if not planner.can_propose(trials):
        return None
    return planner.propose(trials, begun=[config for _, config in begun(found)])


class ProfileSampler(BaseSampler):
    """Proposes whole configurations, by what the profile of a program lets it expect and by what
    the trials so far have shown; the program's own setting first.

    It serves any study whose objective asks for the knobs of `space` by their names, as
    `distributions` gives them, and maximizes samples per second.

    Args:
        space: what is searched.
        profile: of the program.
        propose: what to try next in a study, in the place of a planner made for `space` and
            `profile`; None is the program as it is.
    """

    def __init__(self, space: Space, profile: Profile, *, propose: Propose | None = None) -> None:
        self._space = space
        self._propose = propose or functools.partial(
            _proposed, planner_for(space, profile), space, profile.seen
        )

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The whole space: settings that gain only together are moved together."""
        return distributions(self._space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The configuration from which most is to be expected; the program's own where nothing is
        known yet, or nothing is left.
        """
        proposal = self._propose(study)
        config = proposal.config if proposal is not None else {}
        whole = {**self._space.own, **config}
        return {name: whole[name] for name in search_space}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The program's own value; by chance for what is no knob of the space."""
        if param_name in self._space.own:
            return self._space.own[param_name]
        chance = optuna.samplers.RandomSampler(seed=trial.number)
        return chance.sample_independent(study, trial, param_name, param_distribution)


def held(kind: type[BaseSampler], space: Space, seed: int) -> BaseSampler:
    """A sampler of this `kind` whose values are moved to the nearest one searched, so that what a
    trial says it had is what was run.
    """
    chance = random.Random(seed)

    def nearest(name: str, value: Any) -> Any:
        values = space.choices.get(name, (value,))
        if value in values:
            return value
        if type(value) is int:
            return min(values, key=lambda each: abs(int(each) - value))
        return chance.choice(values)

    class Held(kind):  # type: ignore[misc, valid-type]
        def sample_relative(self, *asked: Any) -> dict[str, Any]:
            sampled = super().sample_relative(*asked)
            return {name: nearest(name, value) for name, value in sampled.items()}

        def sample_independent(
            self, study: optuna.Study, trial: FrozenTrial, param_name: str, *others: Any
        ) -> Any:
            sampled = super().sample_independent(study, trial, param_name, *others)
            return nearest(param_name, sampled)

    return Held(seed=seed)


def sampler_called(
    name: str, space: Space, profile: Profile, *, seed: int, propose: Propose
) -> BaseSampler:
    """One of `SAMPLERS` on `space`; that of the profile proposes what `propose` says."""
    if name == PROFILE:
        return ProfileSampler(space, profile, propose=propose)
    optunas: dict[str, type[BaseSampler]] = {
        "tpe": optuna.samplers.TPESampler,
        "gp": optuna.samplers.GPSampler,
        "random": optuna.samplers.RandomSampler,
    }
    return held(optunas[name], space, seed)
