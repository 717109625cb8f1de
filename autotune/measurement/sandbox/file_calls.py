"""Redirected calls that open a file, ask about one or change one, with the signatures of `os`."""

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from autotune.measurement.sandbox.lead import Lead

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

FileFunction = Callable[..., Any]


class FileCalls:
    """Each function takes the real one first and calls it with where the path leads."""

    def __init__(self, lead: Lead) -> None:
        self.lead = lead

    def reading(
        self,
        real: FileFunction,
        path: Any,
        *rest: Any,
        follow: bool = True,
        dir_fd: int | None = None,
        **named: Any,
    ) -> Any:
        """A call that asks about `path`."""
        if isinstance(path, int) or not self.lead.view.differs:
            return real(path, *rest, **({} if dir_fd is None else {"dir_fd": dir_fd}), **named)
        follow = follow and named.get("follow_symlinks", True)
        return real(self.lead.read(path, follow=follow, dir_fd=dir_fd), *rest, **named)

    def changing(
        self, real: FileFunction, path: Any, *rest: Any, dir_fd: int | None = None, **named: Any
    ) -> Any:
        """A call that changes something about `path`, which is there."""
        if isinstance(path, int):
            return real(path, *rest, **named)
        follow = named.get("follow_symlinks", real.__name__ != "lchown")
        return real(self.lead.write(path, follow=follow, dir_fd=dir_fd), *rest, **named)

    def making(
        self, real: FileFunction, path: Any, *rest: Any, dir_fd: int | None = None, **named: Any
    ) -> Any:
        """A call that makes `path`, which is not there."""
        return real(
            self.lead.write(path, create=True, exclusive=True, follow=False, dir_fd=dir_fd),
            *rest,
            **named,
        )

    def access(self, real: FileFunction, path: Any, mode: int, **named: Any) -> bool:
        """`os.access`."""
        try:
            return bool(self.reading(real, path, mode, **named))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def open(
        self,
        real: FileFunction,
        path: Any,
        flags: int,
        mode: int = 0o777,
        *,
        dir_fd: int | None = None,
    ) -> int:
        """`os.open`."""
        if flags & WRITE_FLAGS:
            path = self.lead.write(
                path,
                create=bool(flags & os.O_CREAT),
                empty=bool(flags & os.O_TRUNC),
                exclusive=bool(flags & os.O_CREAT and flags & os.O_EXCL),
                follow=not flags & os.O_NOFOLLOW,
                dir_fd=dir_fd,
            )
        elif self.lead.view.differs:
            path = self.lead.read(path, follow=not flags & os.O_NOFOLLOW, dir_fd=dir_fd)
        elif dir_fd is not None:
            return int(real(path, flags, mode, dir_fd=dir_fd))
        return int(real(path, flags, mode))

    def open_file(
        self, real: FileFunction, file: Any, mode: str = "r", *rest: Any, **named: Any
    ) -> Any:
        """The built-in `open`."""
        if isinstance(file, int):
            return real(file, mode, *rest, **named)
        if set(mode) & set("wax+"):
            file = self.lead.write(
                file, create="r" not in mode, empty="w" in mode, exclusive="x" in mode
            )
        elif self.lead.view.differs:
            file = self.lead.read(file)
        return real(file, mode, *rest, **named)

    def connect(self, real: FileFunction, database: Any, *rest: Any, **named: Any) -> Any:
        """`sqlite3.connect`."""
        name = os.fsdecode(database)
        if name in ("", ":memory:"):
            return real(database, *rest, **named)
        if not (named.get("uri") and name.startswith("file:")):
            return real(self.lead.write(name, create=True), *rest, **named)
        address = urlsplit(name)
        path = unquote(address.path)
        if path in ("", ":memory:") or "mode=memory" in address.query:
            return real(database, *rest, **named)
        place = quote(self.lead.write(path, create=True))
        return real(f"file:{place}?{address.query}", *rest, **named)

    def save(self, real: FileFunction, obj: Any, f: Any, *rest: Any, **named: Any) -> Any:
        """`torch.save`."""
        place = (
            self.lead.write(f, create=True, empty=True) if isinstance(f, str | os.PathLike) else f
        )
        return real(obj, place, *rest, **named)

    def load(self, real: FileFunction, f: Any, *rest: Any, **named: Any) -> Any:
        """`torch.load`."""
        place = self.lead.read(f) if isinstance(f, str | os.PathLike) else f
        return real(place, *rest, **named)
