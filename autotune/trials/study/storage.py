"""Where a study is kept: in memory, in a journal beside the results, or in a database that several
machines share.
"""

import fcntl
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError, IntegrityError

from autotune.errors import AutotuneError, UsageError
from autotune.trials.keeping import is_shared, without_password
from autotune.trials.study.alive import is_over, this_process
from autotune.trials.study.locks import ByteLocks
from autotune.trials.study.records import CONFIG, PROCESS

METRIC = "samples per second"
# A study in which a search has come to its end says so.
OVER = "over"
# A trial of another machine of which nothing was heard for so long is dead, and tried again once.
HEARTBEAT_SECONDS, SILENT_SECONDS = 10, 60
MOST_RETRIES = 1
# How long a search that has begun a trial may take to say what it tries, and how often is looked.
TURN_SECONDS, LOOK_SECONDS = 10.0, 0.05
# Tables that several make at once, and how long a file of SQLite's may be locked by others.
_MOST_RACES, _LOCKED_SECONDS = 5, 60
_OWN_DRIVER = "postgresql"  # for which there is an extra to install
_JOURNAL_BEGINS = b'{"op_code"'
# Bytes of the file beside a journal that searches lock: while they have it open, while they begin a
# trial, and, from the last on, one for each trial that they try.
_OPEN, _BEGINNING, _TRIALS = range(3)


class Kept:
    """An open storage, and the signs that the searches which have it are alive.

    Raises:
        UsageError: the database's driver is missing.
    """

    def __init__(self, storage: Path | str | None) -> None:
        self._locks: ByteLocks | None = None
        self._own: set[int] = set()
        self.storage: BaseStorage
        if storage is None:
            self.storage = optuna.storages.InMemoryStorage()
        elif is_shared(storage):
            self.storage = _database(str(storage))
        else:
            path = Path(storage)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._locks = ByteLocks(Path(f"{path}.owner"))
            with self._locks.held(_BEGINNING):
                if path.exists() and not self._locks.is_others(_OPEN):
                    _cut_half_a_line(path)
                self._locks.share(_OPEN)
            self.storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))

    def close(self) -> None:
        """Let others have it."""
        if self._locks is not None:
            self._locks.close()
            self._locks = None
        if isinstance(self.storage, RDBStorage):
            self.storage.engine.dispose()

    def begin(self, study: optuna.Study) -> tuple[optuna.Trial, "Heartbeat"]:
        """A trial of `study` that others can tell from one whose search has died, until its
        heartbeat stops or, of a journal's, it is told.
        """
        with quiet(), self._beginning():
            trial = study.ask()
            trial.set_user_attr(PROCESS, [trial.number, this_process()])
            if self._locks is not None:
                self._own.add(trial._trial_id)
                self._locks.take(_TRIALS + trial._trial_id)
            return trial, Heartbeat(self.storage, trial._trial_id)

    def free_the_dead(self, study: optuna.Study) -> None:
        """What searches that have died were trying is to be tried again."""
        if self._locks is None:
            running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            for trial in running:
                number, process = trial.user_attrs.get(PROCESS, (None, ""))
                # One that is retried has for a moment what the dead one said of itself.
                if number == trial.number and is_over(process):
                    with suppress(UpdateFinishedTrialError):  # another search has seen it too
                        study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
            with quiet():
                optuna.storages.fail_stale_trials(study)  # of other machines; databases queue it
            return
        with self._beginning():
            for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                mine = trial._trial_id in self._own
                if not mine and not self._locks.is_others(_TRIALS + trial._trial_id):
                    study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """Nobody else begins a trial meanwhile. A server sees to that itself; of a file of
        SQLite's two searches may take the same waiting trial.
        """
        if self._locks is not None:
            with self._locks.held(_BEGINNING):
                yield
            return
        storage = self.storage
        url = storage.engine.url if isinstance(storage, RDBStorage) else None
        if url is None or url.get_backend_name() != "sqlite" or not url.database:
            yield
            return
        with open(f"{url.database}.beginning", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextmanager
def keeping(place: Path | str | None) -> Iterator[None]:
    """Say it in words where the storage cannot be read or written."""
    try:
        yield
    except AutotuneError:
        raise
    except Exception as error:  # whatever the storage's library raises
        why = without_password((str(error) or repr(error)).splitlines()[0])
        cure = "free some space, or choose another --storage or --out; without that file, in which "
        cure += "the trials are, the search begins anew"
        if is_shared(place):
            cure = "see that the server is up and lets you in, or choose another --storage"
            if str(place).startswith("sqlite"):
                cure = "see that its folder is there and can be written, or choose another"
        raise UsageError(
            f"the study cannot be kept in {without_password(str(place))}: {why}", cure
        ) from error


def reach(place: Path | str) -> None:
    """Open a storage and let go of it.

    Raises:
        UsageError: it cannot be reached, or its driver is missing.
    """
    with keeping(place):
        Kept(place).close()


class Heartbeat:
    """Says, as long as a trial runs, that whoever runs it is alive; to databases only."""

    def __init__(self, storage: BaseStorage, trial_id: int) -> None:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if isinstance(storage, RDBStorage):
            storage.record_heartbeat(trial_id)
            self._thread = threading.Thread(
                target=self._beat, args=(storage, trial_id), daemon=True, name="heartbeat"
            )
            self._thread.start()

    def _beat(self, storage: RDBStorage, trial_id: int) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            with suppress(Exception):  # the next may get through; who asks or tells says why not
                storage.record_heartbeat(trial_id)

    def stop(self) -> None:
        """The trial is over."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()


def await_turn(study: optuna.Study, number: int, silent: set[int]) -> None:
    """Wait until all that were begun before trial `number` have said what they try, so that nothing
    is tried twice. Those that do not are dead: they are noted in `silent` and not waited for again.
    """

    def unsaid() -> set[int]:
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        known = {each.number for each in running if CONFIG in each.user_attrs} | silent
        return {each.number for each in running if each.number < number} - known

    ends = time.monotonic() + TURN_SECONDS
    while (left := unsaid()) and time.monotonic() < ends:
        time.sleep(LOOK_SECONDS)
    silent |= left


class quiet(warnings.catch_warnings):  # noqa: N801  # reads as a statement
    """Without Optuna's warnings that heartbeats are new, and meant for its own loop."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        warnings.simplefilter("ignore")
        return entered


def _database(address: str) -> BaseStorage:
    if address.startswith("postgresql://"):  # whatever SQLAlchemy takes by default
        address = address.replace("postgresql://", "postgresql+psycopg://", 1)
    for _ in range(_MOST_RACES):
        try:
            return _connected(address)
        except ImportError as error:
            kind = address.partition(":")[0].partition("+")[0]
            raise UsageError(
                f"a study in {kind} needs a driver that is not installed: {error}",
                f"install it: pip install 'torch-autotune[{kind}]'"
                if kind == _OWN_DRIVER
                else f"install the driver of that name, or keep it in {_OWN_DRIVER}",
            ) from error
        except DBAPIError as error:  # another search has made the tables in this moment
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
    return _connected(address)


def _connected(address: str) -> BaseStorage:
    options: dict[str, Any] = {"pool_pre_ping": True}
    if address.startswith("sqlite"):
        options["connect_args"] = {"timeout": _LOCKED_SECONDS}
    with quiet():
        return RDBStorage(
            address,
            engine_kwargs=options,
            heartbeat_interval=HEARTBEAT_SECONDS,
            grace_period=SILENT_SECONDS,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(MOST_RETRIES),
        )


def _cut_half_a_line(journal: Path) -> None:
    """Remove what a search that was killed, or a full disk, left of its last line: what is written
    after it could not be read.
    """
    with journal.open("r+b") as file:
        text = file.read()
        if text.startswith(_JOURNAL_BEGINS):
            file.truncate(text.rfind(b"\n") + 1)


def open_study(key: str, storage: BaseStorage, *, fresh: bool) -> optuna.Study:
    """The study called `key`, or the newest that was begun `fresh` after it and in which a search
    has come to its end; to begin `fresh`, one in which none has, or a new one.
    """
    study = optuna.create_study(
        study_name=_name(key, storage, fresh=fresh),
        storage=storage,
        load_if_exists=True,
        direction="maximize",
    )
    with quiet():
        study.set_metric_names([METRIC])
    return study


def _name(key: str, storage: BaseStorage, *, fresh: bool) -> str:
    found = storage.get_all_studies()
    over = {each.study_name for each in found if OVER in each.user_attrs}
    names = [f"{key}-fresh-{number}" for number in range(1, len(found) + 2)]
    if fresh:
        return next(name for name in names if name not in over)
    return next((name for name in reversed(names) if name in over), key)
