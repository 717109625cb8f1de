"""Where a study is kept: in memory, in a journal beside the results, or in a database that several
machines share.
"""

import fcntl
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError, IntegrityError

from autotune.errors import AutotuneError, UsageError
from autotune.trials.keeping import is_shared, without_password
from autotune.trials.study.records import CONFIG

# A trial of another machine of which nothing was heard for so long is dead, and tried again once.
HEARTBEAT_SECONDS, SILENT_SECONDS = 10, 60
MOST_RETRIES = 1
# How long a search that has begun a trial may take to say what it tries, and how often is looked.
TURN_SECONDS, LOOK_SECONDS = 10.0, 0.05
# Tables that several make at once, and how long a file of SQLite's may be locked by others.
_MOST_RACES, _LOCKED_SECONDS = 5, 60
_JOURNAL_BEGINS = b'{"op_code"'


class Kept:
    """An open storage. `sole` says that no other search has it, so that whatever it calls begun was
    left by one that has died.

    Raises:
        UsageError: the database's driver is missing.
    """

    def __init__(self, storage: Path | str | None) -> None:
        self._lock: int | None = None
        self.sole = True
        self.storage: BaseStorage
        if storage is None:
            self.storage = optuna.storages.InMemoryStorage()
        elif is_shared(storage):
            self.storage, self.sole = _database(str(storage)), False
        else:
            path = Path(storage)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock_it(path)
            if self.sole and path.exists():
                _cut_half_a_line(path)
            self.storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))

    def close(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if isinstance(self.storage, RDBStorage):
            self.storage.engine.dispose()

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Nobody else begins a trial meanwhile. A server sees to that itself; of a file of
        SQLite's two searches may take the same waiting trial.
        """
        storage = self.storage
        url = storage.engine.url if isinstance(storage, RDBStorage) else None
        if url is None or url.get_backend_name() != "sqlite" or not url.database:
            yield
            return
        with open(f"{url.database}.beginning", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _lock_it(self, path: Path) -> None:
        """The kernel lets go of it when this process ends, however that happens."""
        self._lock = os.open(f"{path}.owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.sole = False


@contextmanager
def keeping(place: Path | str | None) -> Iterator[None]:
    """Say it in words where the storage cannot be read or written."""
    try:
        yield
    except AutotuneError:
        raise
    except Exception as error:  # whatever the storage's library raises
        why = without_password((str(error) or repr(error)).splitlines()[0])
        cure = "free some space or delete that file, or choose another --storage or --out"
        if is_shared(place):
            cure = "see that the server is up and lets you in, or choose another --storage"
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


def await_turn(study: optuna.Study, number: int) -> None:
    """Wait until all that were begun before trial `number` have said what they try, so that nothing
    is tried twice.
    """
    _wait_while(
        lambda: any(
            trial.number < number and CONFIG not in trial.user_attrs
            for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        )
    )


def await_first(study: optuna.Study) -> None:
    """Wait for the program's own setting where another search has just begun with it: it is
    measured already, and everything is compared with it.
    """
    _wait_while(
        lambda: [each.state for each in study.get_trials(deepcopy=False)] == [TrialState.RUNNING]
    )


def _wait_while(is_open: Callable[[], bool]) -> None:
    ends = time.monotonic() + TURN_SECONDS
    while is_open() and time.monotonic() < ends:  # who takes longer has died
        time.sleep(LOOK_SECONDS)


def free_the_dead(study: optuna.Study) -> None:
    """Queue again what searches that have died were trying, in a database."""
    with quiet():
        optuna.storages.fail_stale_trials(study)


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
                f"install it: pip install 'torch-autotune[{kind}]'",
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
