"""Writing a file whole: either the new text is there or the old one, never half of either."""

import os
from pathlib import Path

from autotune.errors import UsageError


def write_whole(path: Path, text: str) -> None:
    """Put `text` into the file at `path`, making its folders where they are missing.

    Raises:
        UsageError: the file cannot be written there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(text, encoding="utf-8", errors="backslashreplace")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}",
            "Name a folder that you may write to with --out.",
        ) from error
