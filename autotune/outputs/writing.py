"""Writing a file whole: either the new text is there or the old one, never half of either."""

import os
import shutil
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

from autotune.errors import PatchError, UsageError

# What a result with its report takes, several times over.
_ROOM_BYTES = 4 << 20
_ADVICE = "Name a folder that you may write to, on a disk with room, with --out."


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Make `folder` where it is missing, and see that results can be written into it; one that was
    made and stays empty goes again.

    Raises:
        UsageError: they cannot.
    """
    made = not folder.exists()
    ensure_room(folder)
    try:
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


def declared_encoding(text: str) -> str:
    """The encoding that a Python source says it is in."""
    return tokenize.detect_encoding(BytesIO(text.encode(errors="replace")).readline)[0]


def write_draft(draft: Path, text: str, *, like: Path) -> None:
    """Write `text` beside the file `like`, in its encoding, with its permissions and owner.

    Raises:
        PatchError: its encoding does not give it back exactly.
    """
    if not like.exists():
        draft.write_bytes(text.encode(declared_encoding(text)))
        return
    with like.open("rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    own = like.read_bytes()
    if own.decode(encoding).encode(encoding) != own:
        raise PatchError(
            f"{like} cannot be written exactly as it is: {encoding} has several ways to write the "
            "same text.",
            "Save it as UTF-8, and search again.",
        )
    draft.write_bytes(text.encode(encoding))
    shutil.copymode(like, draft)
    with suppress(OSError):  # another user's, and this one is not root
        os.chown(draft, like.stat().st_uid, like.stat().st_gid)
