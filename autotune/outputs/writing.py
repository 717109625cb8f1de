"""Writing a file whole: either the new text is there or the old one, never half of either."""

import os
from pathlib import Path

from autotune.errors import UsageError

# What a result with its report takes, several times over.
_ROOM_BYTES = 4 << 20
_ADVICE = "Name a folder that you may write to, on a disk with room, with --out."


def ensure_room(folder: Path) -> None:
    """Make `folder` where it is missing, and see that results can be written into it.

    Raises:
        UsageError: they cannot.
    """
    draft = folder / f".room.{os.getpid()}.draft"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(bytes(_ROOM_BYTES))
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(folder, error) from error


def write_whole(path: Path, text: str, *, encoding: str = "utf-8") -> None:
    """Put `text` into the file at `path`, making its folders where they are missing.

    Raises:
        UsageError: the file cannot be written there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(text.encode(encoding, errors="backslashreplace"))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror or error}.", _ADVICE)
