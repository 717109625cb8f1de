"""Scratch directories: one a search, removed at its end or, failing that, by the next search."""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from pathlib import Path

from autotune.errors import MeasurementError
from autotune.measurement.sandbox.prepared import remove_tree

LOCK = "lock"
PLACES = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - where Python looks after TMPDIR


def open_scratch(parent: Path | None = None) -> tuple[Path, int]:
    """A new directory that is this search's alone, after the leftovers of searches that died were
    removed; in `parent`, by default below the directory for temporary files.

    Raises:
        MeasurementError: it cannot be made.

    Returns:
        The directory, and the open lock file that keeps others from removing it: the lock lives as
        long as any process that inherited it, and no longer, however they end.
    """
    try:
        parent = _own_directory() if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        parent = parent.resolve()
        for leftover in parent.iterdir():
            _remove_if_stale(leftover)
        scratch = Path(tempfile.mkdtemp(prefix="search-", dir=parent))
        lock = os.open(scratch / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise MeasurementError(
            f"no directory for what runs write can be made in {parent or 'TMPDIR'}: {error}",
            "Free some space, or set TMPDIR to a directory that you may write to.",
        ) from error
    fcntl.flock(lock, fcntl.LOCK_EX)
    return scratch, lock


def _own_directory() -> Path:
    """This user's directory among the temporary files; another, if someone else has taken it."""
    path = _temporary_directory() / f"autotune-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        return path
    return Path(tempfile.mkdtemp(prefix="autotune-"))


def _temporary_directory() -> Path:
    """Python's, but for its last resort: the working directory is the user's.

    Raises:
        OSError: there is none to write to.
    """
    found = tempfile.gettempdir()
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if found == os.getcwd() and found not in (*named, *PLACES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return Path(found)


def _remove_if_stale(scratch: Path) -> None:
    if not scratch.name.startswith("search-"):
        return
    try:
        lock = os.open(scratch / LOCK, os.O_RDWR)
    except OSError:
        return  # not a scratch directory, or one that is being made or removed right now
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(scratch)
    except BlockingIOError:
        pass  # its search is alive
    finally:
        os.close(lock)
