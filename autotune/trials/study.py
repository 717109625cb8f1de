"""The search as an Optuna study: what it remembers survives an interrupt, and what runs out of
plans is sampled.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import UsageError
from autotune.knobs.knob import Value
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import Profile
from autotune.trials.planner import planner_for
from autotune.trials.space import Space
from autotune.trials.trial import Trial

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

# Of no use to a later search, which may find the machine quieter and the disk emptier.
_PASSING = ("busy", "no_space")
_JOURNAL_BEGINS = b'{"op_code"'
# A search goes on while its next trial is expected to gain more than this share.
LEAST_GAIN = 0.01


class Study:
    """The trials of one program on one machine, in an Optuna storage.

    Args:
        key: names the program and the machine, whose trials go on where they stopped. Each space
            has a study of its own; the trials of all of them are remembered.
        storage: a journal file, an Optuna storage URL, or None for memory.
        seed: of the sampler.
    """

    def __init__(
        self, space: Space, profile: Profile, *, key: str, storage: Path | str | None, seed: int
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._planner = planner_for(space, profile)
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in space.choices.items()
        }
        self._place = storage
        with self._keeping():
            kept = _storage(storage)
            self._study = optuna.create_study(
                study_name=f"{key}-{_digest(space)}",
                storage=kept,
                load_if_exists=True,
                direction="maximize",
                sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
            )
            earlier = _earlier(kept, key) if kept is not None else ()
        self._open: dict[int, optuna.Trial] = {}
        self.trials: list[Trial] = [
            _restored(number, trial, profile) for number, trial in enumerate(earlier)
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
        proposal = self._planner.propose(self.trials)
        if proposal is None or proposal.expected_gain < LEAST_GAIN:
            return None
        return self._begin(proposal.config)

    def tell(self, trial: Trial) -> None:
        """What came of a trial that was asked for."""
        opened = self._open.pop(trial.number)
        with self._keeping():
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
        number = len(self.trials)
        with self._keeping():
            self._study.enqueue_trial({**self._space.own, **config}, user_attrs={"planned": True})
            self._open[number] = self._study.ask(self._distributions)
        return number, dict(config)

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """Say it in words where the storage cannot be read or written."""
        try:
            yield
        except Exception as error:  # whatever the storage's library raises
            why = (str(error) or repr(error)).splitlines()[0]
            raise UsageError(
                f"the study cannot be kept in {self._place}: {why}",
                "free some space or delete that file, or choose another --storage or --out",
            ) from error


def _speed(trial: Trial) -> float:
    return trial.outcome.samples_per_second if isinstance(trial.outcome, Measurement) else 0.0


def _states() -> Any:
    import optuna

    return optuna.trial.TrialState


def _storage(storage: Path | str | None) -> "optuna.storages.BaseStorage | str | None":
    import optuna

    if storage is None or (isinstance(storage, str) and "://" in storage):
        return storage
    from optuna.storages.journal import JournalFileBackend

    path = Path(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        _cut_half_a_line(path)
    return optuna.storages.JournalStorage(JournalFileBackend(str(path)))


def _cut_half_a_line(journal: Path) -> None:
    """Remove what a search that was killed, or a full disk, left of its last line: what is written
    after it could not be read.
    """
    with journal.open("r+b") as file:
        text = file.read()
        if text.startswith(_JOURNAL_BEGINS):
            file.truncate(text.rfind(b"\n") + 1)


def _earlier(storage: "optuna.storages.BaseStorage | str", key: str) -> "list[FrozenTrial]":
    """The trials of all studies of `key` that say something still, in the order in which they were
    begun.
    """
    import optuna

    names = optuna.get_all_study_names(storage)
    found = [
        trial
        for name in names
        if name.startswith(f"{key}-")
        for trial in optuna.load_study(study_name=name, storage=storage).trials
        if "config" in trial.user_attrs and trial.user_attrs.get("failure") not in _PASSING
    ]
    return sorted(found, key=lambda trial: trial.datetime_start or datetime.min)


def _digest(space: Space) -> str:
    choices = {name: list(values) for name, values in space.choices.items()}
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()[:16]


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


def _restored(number: int, frozen: "FrozenTrial", profile: Profile) -> Trial:
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
        number=number,
        config=json.loads(facts["config"]),
        outcome=outcome,
        seconds=facts["seconds"],
    )
