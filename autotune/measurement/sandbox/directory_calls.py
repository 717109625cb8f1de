"""Redirected calls that list files, remove them or move them, with the signatures of `os`."""

import errno
import os
import shutil
from collections.abc import Iterator
from typing import Any

from autotune.measurement.sandbox.file_calls import FileFunction
from autotune.measurement.sandbox.lead import Lead


class DirectoryCalls:
    """Each function takes the real one first."""

    def __init__(self, lead: Lead) -> None:
        self.lead = lead
        self.view = lead.view
        self.inside = lead.inside

    def remove(self, real: FileFunction, path: Any, *, dir_fd: int | None = None) -> None:
        """`os.remove` and `os.unlink`."""
        with self.inside:
            place, found = self.lead.entry(path, dir_fd)
            if not self.view.territory.protects(place):
                real(place)
                return
            if os.path.isdir(found) and not os.path.islink(found):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
            if os.path.lexists(self.view.upper + place):
                real(self.view.upper + place)
            self.view.hide(place)

    def rmdir(self, real: FileFunction, path: Any, *, dir_fd: int | None = None) -> None:
        """`os.rmdir`."""
        with self.inside:
            place, found = self.lead.entry(path, dir_fd)
            if not self.view.territory.protects(place):
                real(place)
                return
            if not os.path.isdir(found) or os.path.islink(found):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
            if self.view.entries(place):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), place)
            if os.path.isdir(self.view.upper + place):
                real(self.view.upper + place)
            self.view.hide(place)

    def rename(
        self,
        real: FileFunction,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """`os.rename` and `os.replace`."""
        with self.inside:
            source, found = self.lead.entry(src, src_dir_fd)
            target = self.view.canonical(self.lead.name(dst, dst_dir_fd), follow=False)
            if source == target:
                return
            if target.startswith(source + "/"):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), source)
            if source.startswith(target + "/"):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
            self._check_replacing(found, target)
            physical = (
                self.view.changed_tree(source) if self.view.territory.protects(source) else source
            )
            if self.view.territory.protects(target):
                place = self.view.new(target)
                if os.path.isdir(place) and not os.path.islink(place):
                    os.rmdir(place)  # empty, as was checked
                shutil.move(physical, place) if os.path.isdir(physical) else real(physical, place)
                self.view.hide(target)
            else:
                shutil.move(physical, target)
            if self.view.territory.protects(source):
                self.view.hide(source)

    def _check_replacing(self, source: str, target: str) -> None:
        """Refuse what the kernel refuses: to replace another kind of file or a full directory."""
        over = self.view.find(target)
        if over is None:
            return
        from_directory, to_directory = (
            os.path.isdir(path) and not os.path.islink(path) for path in (source, over)
        )
        if from_directory and not to_directory:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), target)
        if to_directory and not from_directory:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if to_directory and self.view.entries(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)

    def symlink(
        self,
        real: FileFunction,
        src: Any,
        dst: Any,
        *_is_directory: bool,
        dir_fd: int | None = None,
        **_named: bool,
    ) -> None:
        """`os.symlink`."""
        real(src, self.lead.write(dst, create=True, exclusive=True, follow=False, dir_fd=dir_fd))
        self.view.relink()

    def link(self, real: FileFunction, src: Any, dst: Any, **named: Any) -> None:
        """`os.link`."""
        source_fd, target_fd = named.get("src_dir_fd"), named.get("dst_dir_fd")
        with self.inside:
            self.lead.entry(src, source_fd)  # what is missing is said first
        target = self.lead.write(dst, create=True, exclusive=True, dir_fd=target_fd)
        real(self.lead.write(src, follow=False, dir_fd=source_fd), target)
        self.view.relink()

    def listdir(self, real: FileFunction, path: Any = ".") -> Any:
        """`os.listdir`."""
        if isinstance(path, int) or not self.view.differs:
            return real(path)
        with self.inside:
            place = self.lead.directory(path)
            if not self.view.territory.protects(place):
                return real(place if isinstance(path, str) else os.fsencode(place))
            names = list(self.view.entries(place))
            return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def scandir(self, real: FileFunction, path: Any = ".") -> Any:
        """`os.scandir`."""
        if isinstance(path, int) or not self.view.differs:
            return real(path)
        with self.inside:
            place = self.lead.directory(path)
            if not self.view.territory.protects(place):
                return real(path)
            return Scan(os.fspath(path), list(self.view.entries(place).values()))

    def chdir(self, real: FileFunction, path: Any) -> None:
        """`os.chdir`."""
        if isinstance(path, int) or not self.view.differs:
            real(path)
            return
        with self.inside:
            place = self.lead.directory(path)
            # Into the real one if there is one, for the sake of programs that are started there.
            real(place if os.path.isdir(place) else self.view.changed(place))

    def getcwd(self, real: FileFunction) -> str:
        """`os.getcwd`."""
        return self.view.own(real())

    def getcwdb(self, real: FileFunction) -> bytes:
        """`os.getcwdb`."""
        return os.fsencode(self.view.own(os.fsdecode(real())))


class Scan:
    """What `os.scandir` returns, over entries of several real directories."""

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
