"""Writing a file whole: either the new text is there or the old one, never half of either."""

import errno
import os
import shutil
import tokenize
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from autotune.errors import PatchError, UsageError

_ADVICE = "Name a folder that you may write to with --out."
_NO_ROOM = (
    "Free some MiB, or name a folder on another disk with --out; the same command then goes on."
)


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
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UsageError:
    """What is said where `path` cannot be written."""
    advice = _NO_ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else _ADVICE
    return UsageError(f"{path} cannot be written: {error.strerror or error}.", advice)


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
