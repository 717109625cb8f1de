"""The folder that a run writes into: there, with room, and no other run's meanwhile."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from autotune.errors import UsageError
from autotune.outputs.writing import cannot_write


class TakenError(UsageError):
    """Another process is writing into the folder."""


# What a result with its report takes, several times over.
_ROOM_BYTES = 4 << 20
_LOCKS = Path("/proc/locks")


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Make `folder` where it is missing, see that results can be written into it, and have it to
    oneself; one that was made and stays empty goes again.

    Raises:
        TakenError: another process is at it.
        UsageError: they cannot.
    """
    made = not folder.exists()
    try:
        ensure_room(folder)
        with _alone(folder):
            yield
    finally:
        if made:
            with suppress(OSError):  # there is something in it
                folder.rmdir()


def ensure_room(folder: Path) -> None:
    """See that results can be written into `folder`, and make it where it is missing.

    Raises:
        UsageError: they cannot.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder.", "Name a folder with --out.")
    draft = folder / f".room.{os.getpid()}.draft"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(bytes(_ROOM_BYTES))
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock on `folder` itself: no file stays, and the kernel lets go of it however its
    process ends.
    """
    with ExitStack() as held:
        with suppress(OSError):  # a folder that cannot be read, or a file system without locks
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, handle)
            _take(handle, folder)
        yield


def _take(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TakenError(
            f"{_holder(handle)} is writing into {folder} at this moment.",
            "Wait until it has ended, or name another folder with --out.",
        ) from None


def _holder(handle: int) -> str:
    """Who has the lock, as the kernel lists them (proc_locks(5)): device and inode beside the
    process.
    """
    status = os.fstat(handle)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in _LOCKS.read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == file and int(words[4]) > 0:
                return f"Process {words[4]}"
    return "Another process"
