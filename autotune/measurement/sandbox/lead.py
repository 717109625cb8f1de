"""Where a redirected call is led to."""

import errno
import os
import threading
from typing import Any

from autotune.measurement.sandbox.view import View


class Inside(threading.local):
    """Whether this thread is in the redirection's own code, for which paths are what they are."""

    on = False

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_error: object) -> None:
        self.on = False


class Lead:
    """Physical paths for what a program names, for reading and for writing."""

    def __init__(self, view: View, inside: Inside) -> None:
        self.view = view
        self.inside = inside

    def name(self, path: Any, dir_fd: int | None = None) -> str:
        """A path argument as text, made absolute if it is relative to an open directory."""
        name = os.fsdecode(path)
        if dir_fd is not None and not name.startswith("/"):
            name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)
        return name

    def read(self, path: Any, *, follow: bool = True, dir_fd: int | None = None) -> str:
        """The physical path to read what the program calls `path`."""
        with self.inside:
            name = self.name(path, dir_fd)
            return self.view.there(self.view.canonical(name, follow=follow))

    def write(
        self,
        path: Any,
        *,
        create: bool = False,
        empty: bool = False,
        exclusive: bool = False,
        follow: bool = True,
        dir_fd: int | None = None,
    ) -> str:
        """The physical path to change what the program calls `path`: to `create` it where there is
        nothing, or `empty` it, whose bytes need not be copied then; where it is `exclusive`, it
        must not be there yet, not even as a link.
        """
        with self.inside:
            name = self.name(path, dir_fd)
            place = self.view.canonical(name, follow=follow and not exclusive)
            if not self.view.territory.protects(place):
                return place
            if self.view.find(place) is None and create:
                return self.view.new(place)
            if exclusive:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            return self.view.changed(place, empty=empty)

    def entry(self, path: Any, dir_fd: int | None) -> tuple[str, str]:
        """The place that `path` names and what is there, links not followed."""
        place = self.view.canonical(self.name(path, dir_fd), follow=False)
        return place, self.view.there(place)

    def directory(self, path: Any) -> str:
        """The place of a directory that can be listed."""
        place = self.view.canonical(self.name("." if path is None else path))
        if not os.path.isdir(self.view.there(place)):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
        return place
