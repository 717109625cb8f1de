"""The user's files as a redirected run sees them: its own writes over the prepared layer over the
real ones.

Paths here are the program's own, absolute and with links resolved, unless they are called physical:
where the bytes really are. What is hidden was deleted, or replaced, by the run: nothing shines
through from below.
"""

import errno
import hashlib
import json
import mmap
import os
import shutil
import struct
from collections import deque
from collections.abc import Callable
from pathlib import Path

from autotune.measurement.sandbox.layer import Layer

MAX_LINKS = 40  # as the kernel
# What is counted: writes, paths hidden, and changes that can make a name lead elsewhere.
WRITES, HIDDEN, LINKS = 0, 1, 2


class View:
    """Copy-on-write over protected directories, shared with the processes that this one forks."""

    def __init__(self, layer: Layer) -> None:
        self.territory = layer.territory
        self.upper = str(layer.root / "upper")
        self._hidden_directory = layer.root / "hidden"
        self._hidden: frozenset[str] = frozenset()
        self._hidden_known = 0
        self._directories: dict[str, str] = {}
        self._directories_known = 0
        self._counters = mmap.mmap(-1, 24)  # shared with forked children
        self._prepared_tree = ""
        self._prepared_hidden: frozenset[str] = frozenset()
        if layer.prepared is not None:
            tree = layer.prepared / "tree"
            if any(tree.iterdir()):  # else every read would be looked for there in vain
                self._prepared_tree = str(tree)
            self._prepared_hidden = frozenset(
                json.loads((layer.prepared / "deleted.json").read_text())
            )

    @property
    def differs(self) -> bool:
        """Whether anything can look other than it really is."""
        prepared = bool(self._prepared_tree or self._prepared_hidden)
        return prepared or self._count(WRITES) > 0

    def own(self, path: str) -> str:
        """The program's name for a path that may be physical."""
        return (
            path[len(self.upper) :] or "/"
            if path == self.upper or path.startswith(self.upper + "/")
            else path
        )

    def canonical(self, path: str, *, follow: bool = True) -> str:
        """`path` made absolute, links resolved; a link at its end only if `follow`."""
        path = self.own(path if path.startswith("/") else os.path.join(os.getcwd(), path))
        directory, _, name = path.rpartition("/")
        if name in {"", ".", ".."}:
            return self._resolve(path, follow=follow, find=self.find)
        step = os.path.join(self._canonical_directory(directory), name)
        found = self.find(step) if follow else None
        if found is not None and os.path.islink(found):
            return self._resolve(step, follow=True, find=self.find)
        return step

    def _canonical_directory(self, path: str) -> str:
        """As `canonical`; remembered, since data sets are many files in few directories."""
        if (count := self._count(LINKS)) != self._directories_known:
            self._directories, self._directories_known = {}, count
        if path not in self._directories:
            self._directories[path] = self._resolve(path, follow=True, find=self.find)
        return self._directories[path]

    def physical(self, path: str) -> str:
        """Where `path` really leads, whatever the run has written; a last link is not followed."""
        return self._resolve(os.path.join(os.getcwd(), path), follow=False, find=lambda path: path)

    def _resolve(self, path: str, *, follow: bool, find: Callable[[str], str | None]) -> str:
        pending, here, links = deque(path.split("/")), "/", 0
        while pending:
            part = pending.popleft()
            if part in ("", ".", ".."):
                here = os.path.dirname(here) if part == ".." else here
                continue
            step = os.path.join(here, part)
            found = find(step) if pending or follow else None
            if found is None or not os.path.islink(found):
                here = step
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(found)
            here = "/" if target.startswith("/") else here
            pending.extendleft(reversed(target.split("/")))
        return here

    def find(self, path: str) -> str | None:
        """The physical path that stands for `path`; None where there is nothing."""
        if self.territory.protects(path) and os.path.lexists(self.upper + path):
            return self.upper + path
        return self._below(path)

    def _below(self, path: str) -> str | None:
        if self.territory.protects(path):
            if _covers(self._hidden_paths(), path):
                return None
            if self._prepared_tree and os.path.lexists(self._prepared_tree + path):
                return self._prepared_tree + path
            if _covers(self._prepared_hidden, path):
                return None
        return path if os.path.lexists(path) else None

    def there(self, path: str) -> str:
        """The physical path that stands for `path`.

        Raises:
            FileNotFoundError: nothing is there.
            NotADirectoryError: nor can be.
        """
        found = self.find(path)
        if found is None:
            raise self._missing(path)
        return found

    def _missing(self, path: str) -> OSError:
        """What the kernel says of a path at which there is nothing."""
        above = os.path.dirname(path)
        while (found := self.find(above)) is None:
            above = os.path.dirname(above)
        number = errno.ENOENT if os.path.isdir(found) else errno.ENOTDIR
        return OSError(number, os.strerror(number), path)

    def entries(self, path: str) -> dict[str, "os.DirEntry[str]"]:
        """What a directory has in it, by name; each entry is physical."""
        hidden = self._hidden_paths()
        found: dict[str, os.DirEntry[str]] = {}
        if not _covers(hidden, path):
            if not _covers(self._prepared_hidden, path):
                found |= _scan(path, without=self._prepared_hidden)
            if self._prepared_tree:
                found |= _scan(self._prepared_tree + path)
            found = {
                name: entry
                for name, entry in found.items()
                if os.path.join(path, name) not in hidden
            }
        return found | _scan(self.upper + path)

    def new(self, path: str) -> str:
        """The physical path at which `path` can be made, in a directory that is there.

        Raises:
            OSError: its directory is not there, or not this user's to write to.
        """
        parent = os.path.dirname(path)
        found = self.find(parent)
        if found is None or not os.path.isdir(found):
            raise self._missing(path)
        if not os.access(found, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        self._make_directory(parent)
        self._increment(WRITES)
        return self.upper + path

    def changed(self, path: str, *, empty: bool = False) -> str:
        """The physical path of the run's own copy of `path`, made now if need be; `empty` leaves
        its bytes out.

        Raises:
            FileNotFoundError: nothing is there.
            PermissionError: it is not this user's to write to.
        """
        found = self.there(path)
        own = self.upper + path
        if found == own:
            return own
        if not os.path.islink(found) and not os.access(found, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        self._increment(WRITES)
        self._make_directory(os.path.dirname(path))
        if os.path.isdir(found) and not os.path.islink(found):
            self._make_directory(path)
        elif empty:
            Path(own).touch()
            shutil.copymode(found, own)
        else:
            shutil.copy2(found, own, follow_symlinks=False)
        return own

    def changed_tree(self, path: str) -> str:
        """As `changed`, with everything below a directory."""
        own = self.changed(path)
        if os.path.isdir(own) and not os.path.islink(own):
            for name in self.entries(path):
                self.changed_tree(os.path.join(path, name))
        return own

    def hide(self, path: str) -> None:
        """Let nothing that lies below the run's own writes be seen at `path`."""
        self.relink()
        if self._below(path) is not None:
            name = hashlib.sha256(os.fsencode(path)).hexdigest()
            (self._hidden_directory / name).write_text(path)
            self._increment(WRITES)
            self._increment(HIDDEN)

    def relink(self) -> None:
        """Resolve links anew from now on: one was made, moved or removed."""
        self._increment(LINKS)

    def _make_directory(self, path: str) -> None:
        own = self.upper + path
        if path in ("", "/") or os.path.isdir(own):
            return
        self._make_directory(os.path.dirname(path))
        os.mkdir(own)
        if (found := self._below(path)) is not None:
            shutil.copystat(found, own)

    def _hidden_paths(self) -> frozenset[str]:
        if (count := self._count(HIDDEN)) != self._hidden_known:
            self._hidden = frozenset(
                marker.read_text() for marker in self._hidden_directory.iterdir()
            )
            self._hidden_known = count
        return self._hidden

    def _count(self, index: int) -> int:
        value: int = struct.unpack_from("=q", self._counters, index * 8)[0]
        return value

    def _increment(self, index: int) -> None:
        struct.pack_into("=q", self._counters, index * 8, self._count(index) + 1)


def _covers(paths: frozenset[str], path: str) -> bool:
    """Whether `path` or a directory above it is among `paths`."""
    while paths and path != "/":
        if path in paths:
            return True
        path = os.path.dirname(path)
    return False


def _scan(path: str, without: frozenset[str] = frozenset()) -> dict[str, "os.DirEntry[str]"]:
    if not os.path.isdir(path):
        return {}
    with os.scandir(path) as entries:
        return {entry.name: entry for entry in entries if entry.path not in without}
