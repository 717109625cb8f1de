"""Linux mount namespaces: the system calls that an overlay needs, by way of the C library."""

import ctypes
import os
import re
from collections.abc import Callable

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
LISTENING = 1 << 16  # __SO_ACCEPTCON
CAPABILITY_VERSION_3 = 0x20080522


def enter_own_namespace(*, user: bool) -> None:
    """Give this process mounts of its own; `user` does it without privilege, by a user namespace.

    Must run while the process has a single thread.

    Raises:
        OSError: this machine does not permit it.
    """
    ids = os.getuid(), os.getgid()
    _call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if user else 0))
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{ids[0]} {ids[0]} 1")
        _write("/proc/self/gid_map", f"{ids[1]} {ids[1]} 1")
    mount(None, "/", flags=MS_REC | MS_PRIVATE)


def mount(
    source: str | None, target: str, *, kind: str | None = None, flags: int = 0, options: str = ""
) -> None:
    """Mount a file system or show a directory somewhere else.

    Raises:
        OSError: with the kernel's reason.
    """
    _call("mount", _bytes(source), _bytes(target), _bytes(kind), flags, _bytes(options or None))


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Show `source`, with the mounts below it, at `target`."""
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        # What an ordinary user may not take off again must be asked for anew.
        own = os.statvfs(target).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
        mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | own)


def drop_capabilities() -> None:
    """Give up what a user namespace granted, so that file permissions bind as they did before."""

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    nothing = (ctypes.c_uint32 * 6)()
    _call("capset", ctypes.byref(Header(CAPABILITY_VERSION_3, 0)), ctypes.byref(nothing))


def mount_points() -> dict[str, str]:
    """Where something is mounted, as this process sees it, and of what kind: {"/": "ext4"}."""
    with open(
        "/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape", newline="\n"
    ) as table:
        mounts = [line.split(" - ") for line in table]  # man 5 proc
    return {_unescaped(where.split(" ")[4]): what.split(" ")[0] for where, what in mounts}


def listening_sockets() -> list[str]:
    """The sockets in the file system at which some server waits (man 5 proc)."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape", newline="\n") as table:
        rows = [line.rstrip("\n").split(None, 7) for line in table][1:]
    waiting = (row[7] for row in rows if len(row) == 8 and int(row[3], 16) & LISTENING)
    return list(dict.fromkeys(path for path in waiting if path.startswith("/")))


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path)


def _call(name: str, *arguments: object) -> None:
    function: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
