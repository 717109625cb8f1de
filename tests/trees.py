"""A hash of files, to tell whether anything of a user's has changed."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


def tree_hash(paths: Iterable[Path]) -> str:
    """A SHA-256 of the names, permissions and contents of all that lies below `paths`.

    Links count with what they say, not with what they lead to; sockets, pipes and devices are
    passed over.
    """
    digest = hashlib.sha256()
    for path in paths:
        for entry in _below(path):
            found = entry.lstat()
            digest.update(
                f"{os.fspath(entry)!r} {found.st_mode:o} ".encode(errors="surrogateescape")
            )
            if stat.S_ISLNK(found.st_mode):
                digest.update(os.fsencode(os.readlink(entry)))
            elif stat.S_ISREG(found.st_mode):
                with entry.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _below(path: Path) -> Iterator[Path]:
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
        yield path
    if stat.S_ISDIR(mode):
        for inner in sorted(path.iterdir()):
            yield from _below(inner)
