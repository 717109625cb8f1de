"""The guard of redirected runs: a protected write that was not redirected is refused beforehand."""

import errno
import os
import sys
from typing import Any
from urllib.parse import unquote, urlsplit

from autotune.measurement.sandbox.file_calls import WRITE_FLAGS
from autotune.measurement.sandbox.lead import Inside
from autotune.measurement.sandbox.view import View

# For each audit event that changes a path: where its arguments have the path, and the directory it
# is relative to.
CHANGES = {
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.truncate": ((0, None),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "sqlite3.connect": ((0, None),),
}
MESSAGE = (
    "autotune refused to change this file of yours: it is written in a way that cannot be "
    "redirected"
)


def watch(view: View, inside: Inside) -> None:
    """Have Python ask before it changes a file, for the rest of this process's life."""

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            changes: Any = ((0, None),) if (arguments[2] or 0) & WRITE_FLAGS else ()
        else:
            changes = CHANGES.get(event, ())
        if not changes or inside.on:
            return
        with inside:
            for path, directory in changes:
                _refuse_protected(
                    view, arguments[path], None if directory is None else arguments[directory]
                )

    sys.addaudithook(check)


def _refuse_protected(view: View, path: Any, directory: Any) -> None:
    if not isinstance(path, str | bytes | os.PathLike) or path in ("", b"", ":memory:"):
        return  # a file that is open already, or none
    name = os.fsdecode(path)
    if isinstance(directory, int) and directory >= 0:
        name = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), name)
    place = view.physical(unquote(urlsplit(name).path) if name.startswith("file:") else name)
    if view.territory.protects(place):
        raise PermissionError(errno.EACCES, MESSAGE, place)
