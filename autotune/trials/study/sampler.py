"""The planner as a sampler of Optuna's, and Optuna's own held to the values that are searched."""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

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


class Held(BaseSampler):
    """Another sampler whose values are moved to the nearest one searched, so that what a trial says
    it had is what was run.
    """

    def __init__(self, inner: BaseSampler, space: Space, seed: int) -> None:
        self._inner = inner
        self._space = space
        self._chance = random.Random(seed)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The inner sampler's."""
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The inner sampler's, held to the values searched."""
        sampled = self._inner.sample_relative(study, trial, search_space)
        return {name: self._held(name, value) for name, value in sampled.items()}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The inner sampler's, held to the values searched."""
        sampled = self._inner.sample_independent(study, trial, param_name, param_distribution)
        return self._held(param_name, sampled)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """The inner sampler's."""
        self._inner.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """The inner sampler's."""
        self._inner.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """The inner sampler's."""
        self._inner.reseed_rng()

    def _held(self, name: str, value: Any) -> Any:
        values = self._space.choices.get(name, (value,))
        if value in values:
            return value
        if type(value) is int:
            return min(values, key=lambda each: abs(int(each) - value))
        return self._chance.choice(values)


def sampler_called(
    name: str, space: Space, profile: Profile, *, seed: int, propose: Propose
) -> BaseSampler:
    """One of `SAMPLERS` on `space`; that of the profile proposes what `propose` says."""
    if name == PROFILE:
        return ProfileSampler(space, profile, propose=propose)
    optunas: dict[str, Callable[..., BaseSampler]] = {
        "tpe": optuna.samplers.TPESampler,
        "gp": optuna.samplers.GPSampler,
        "random": optuna.samplers.RandomSampler,
    }
    return Held(optunas[name](seed=seed), space, seed)
