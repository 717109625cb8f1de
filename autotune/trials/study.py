"""The search as an Optuna study: what it remembers survives an interrupt, and what runs out of
plans is sampled.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import UsageError
from autotune.knobs.knob import Value
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import Profile
from autotune.trials.planner import propose
from autotune.trials.space import Space
from autotune.trials.trial import Trial

if TYPE_CHECKING:
    import optuna

# Configurations sampled beyond the plan without a new best before more searching is taken not to
# pay.
PATIENCE = 5
_SAMPLING_ATTEMPTS = 20


class Study:
    """The trials of one program on one machine, in an Optuna storage.

    Args:
        key: names the study; the same program, space and machine go on where they stopped.
        storage: a journal file, an Optuna storage URL, or None for memory.
        seed: of the sampler.
    """

    def __init__(
        self, space: Space, profile: Profile, *, key: str, storage: Path | str | None, seed: int
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._profile = profile
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in space.choices.items()
        }
        self._study = optuna.create_study(
            study_name=key,
            storage=_storage(storage),
            load_if_exists=True,
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
        )
        self._open: dict[int, optuna.Trial] = {}
        self.trials: list[Trial] = [
            _restored(trial, profile)
            for trial in self._study.trials
            if "config" in trial.user_attrs
        ]
        for trial in self._study.trials:
            if not trial.state.is_finished():  # an earlier search was interrupted in it
                self._study.tell(
                    trial.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True
                )

    def ask(self) -> tuple[int, dict[str, Value]] | None:
        """A trial's number and the Config to try, None when more searching does not pay."""
        if not self.trials:
            return self._begin({})
        planned = propose(self.trials, self._space, self._profile)
        if planned is not None:
            return self._begin(planned)
        if self._since_best() >= PATIENCE:
            return None
        for _ in range(min(_SAMPLING_ATTEMPTS, self._space.size)):
            trial = self._study.ask(self._distributions)
            config = self._space.difference(trial.params)
            if config and config not in [dict(known.config) for known in self.trials]:
                self._open[trial.number] = trial
                return trial.number, config
            self._study.tell(trial, state=_states().PRUNED)
        return None

    def tell(self, trial: Trial) -> None:
        """What came of a trial that was asked for."""
        opened = self._open.pop(trial.number)
        for name, value in _document(trial).items():
            opened.set_user_attr(name, value)
        if isinstance(trial.outcome, Measurement):
            self._study.tell(opened, trial.outcome.samples_per_second)
        else:
            self._study.tell(opened, state=_states().FAIL)
        self.trials.append(trial)

    @property
    def best(self) -> Trial | None:
        """The measured trial with the highest throughput."""
        measured = [trial for trial in self.trials if isinstance(trial.outcome, Measurement)]
        return max(measured, key=_speed, default=None)

    def _begin(self, config: Mapping[str, Value]) -> tuple[int, dict[str, Value]]:
        self._study.enqueue_trial({**self._space.own, **config}, user_attrs={"planned": True})
        trial = self._study.ask(self._distributions)
        self._open[trial.number] = trial
        return trial.number, dict(config)

    def _since_best(self) -> int:
        best = self.best
        return len(self.trials) - 1 - self.trials.index(best) if best else len(self.trials)


def _speed(trial: Trial) -> float:
    return trial.outcome.samples_per_second if isinstance(trial.outcome, Measurement) else 0.0


def _states() -> Any:
    import optuna

    return optuna.trial.TrialState


def _storage(storage: Path | str | None) -> "optuna.storages.BaseStorage | str | None":
    import optuna

    if storage is None or (isinstance(storage, str) and "://" in storage):
        return storage
    try:
        Path(storage).parent.mkdir(parents=True, exist_ok=True)
        from optuna.storages.journal import JournalFileBackend

        backend = JournalFileBackend(str(storage))
        return optuna.storages.JournalStorage(backend)
    except OSError as error:
        raise UsageError(
            f"the study cannot be kept in {storage}: {error}", "choose another --storage or --out"
        ) from None


def _document(trial: Trial) -> dict[str, Any]:
    outcome = trial.outcome
    facts: dict[str, Any] = {"config": json.dumps(dict(trial.config)), "seconds": trial.seconds}
    if isinstance(outcome, Measurement):
        return facts | {
            "interval": list(outcome.interval),
            "samples_per_second": outcome.samples_per_second,
            "startup_seconds": outcome.startup_seconds,
        }
    return facts | {"failure": outcome.kind, "reason": outcome.reason}


def _restored(frozen: Any, profile: Profile) -> Trial:
    """A trial of an earlier search; its raw windows stayed with that search's result."""
    facts = frozen.user_attrs
    outcome: Measurement | Failure
    if "failure" in facts:
        outcome = Failure(kind=facts["failure"], reason=facts["reason"])
    else:
        outcome = Measurement(
            samples_per_second=facts["samples_per_second"],
            interval=tuple(facts["interval"]),
            windows=(),
            seen=profile.seen,
            startup_seconds=facts["startup_seconds"],
            peak_bytes=None,
            losses=(),
        )
    return Trial(
        number=frozen.number,
        config=json.loads(facts["config"]),
        outcome=outcome,
        seconds=facts["seconds"],
    )
