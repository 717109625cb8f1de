"""Locks on the bytes of a file, of which the kernel lets go when their process ends, however that
happens (`fcntl_locking(2)`, open file description locks): over a network's file system too.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# `struct flock`: kind, whence, start, length, process; the last is none here.
_FLOCK = "hhqqi0q"


class ByteLocks:
    """The locks of one who has `path` open; it is made where it is missing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Let go of all of them."""
        os.close(self._file)

    def take(self, byte: int) -> None:
        """Have a byte to oneself; wait for it."""
        self._ask(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, byte)

    def share(self, byte: int) -> None:
        """Have a byte together with all who share it."""
        self._ask(fcntl.F_OFD_SETLKW, fcntl.F_RDLCK, byte)

    @contextmanager
    def held(self, byte: int) -> Iterator[None]:
        """Have a byte to oneself for a while."""
        self.take(byte)
        try:
            yield
        finally:
            self._ask(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte)

    def is_others(self, byte: int) -> bool:
        """Whether anybody else has it."""
        found = self._ask(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte)
        return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)

    def _ask(self, command: int, kind: int, byte: int) -> bytes:
        return fcntl.fcntl(self._file, command, struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0))
