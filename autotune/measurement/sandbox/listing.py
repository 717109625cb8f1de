"""`os.scandir` over a directory whose entries lie in several real ones."""

import os
from collections.abc import Iterator
from typing import Any


class Scan:
    """What `os.scandir` returns, over entries of several directories."""

    def __init__(self, path: Any, entries: list["os.DirEntry[str]"]) -> None:
        self._entries = iter([Entry(path, entry) for entry in entries])

    def __iter__(self) -> Iterator["Entry"]:
        return self

    def __next__(self) -> "Entry":
        return next(self._entries)

    def __enter__(self) -> "Scan":
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave out what has not been seen yet."""
        self._entries = iter(())


class Entry:
    """A directory entry under the name that the program has for it."""

    def __init__(self, directory: Any, entry: "os.DirEntry[str]") -> None:
        self._entry = entry
        self.name: Any = os.fsencode(entry.name) if isinstance(directory, bytes) else entry.name
        self.path = os.path.join(directory, self.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> Any:
        return self.path
