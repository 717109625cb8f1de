"""Landlock: the kernel refuses writes outside chosen directories, without privilege, for children
too.

The guard where mounts are forbidden. It redirects nothing; it makes what was not redirected fail.
"""

import ctypes
import os
import struct
from collections.abc import Iterable

from autotune.measurement.sandbox.territory import Territory, is_in

# linux/landlock.h; the numbers of the system calls are the same on every processor.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_QUERY = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
# Remove directory and file; make character device, directory, file, socket, pipe, block device,
# link.
CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
MOVE_BETWEEN_DIRECTORIES = 1 << 13
FIRST_WITH_MOVE, FIRST_WITH_TRUNCATE = 2, 3

_LIBC = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The version of Landlock that the kernel has; 0 without it."""
    answer = int(_LIBC.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_QUERY))
    return max(0, answer)


def forbid_writes(territory: Territory, allowed: Iterable[str]) -> None:
    """From now on this process and its children can write nowhere below protected directories.

    A directory above a protected one cannot get new entries either, since rules hold for all that
    is below. What is `allowed` stays open in any case.

    Raises:
        OSError: the kernel does not have it, or does not permit it.
    """
    supported = version()
    rights = WRITE_FILE | CHANGE_DIRECTORY
    rights |= MOVE_BETWEEN_DIRECTORIES if supported >= FIRST_WITH_MOVE else 0
    rights |= TRUNCATE if supported >= FIRST_WITH_TRUNCATE else 0
    attributes = struct.pack("=Q", rights)
    rules = _call(CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for directory in {*allowed, *_open_directories("/", territory)}:
            _allow(rules, rights, directory)
        if _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        _call(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _open_directories(top: str, territory: Territory) -> list[str]:
    """The largest directories from `top` on that have nothing protected in them."""
    if not any(is_in([top], path) for path in (*territory.protected, *territory.named)):
        return [top]
    found = [path for path in territory.kept if path != top and is_in([top], path)]
    if territory.protects(top):
        inner = found
    else:
        inner = [entry.path for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)]
    return [path for directory in inner for path in _open_directories(directory, territory)]


def _allow(rules: int, rights: int, directory: str) -> None:
    try:
        handle = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return  # gone, or not this user's to see: then nothing is to be allowed there
    try:
        _call(ADD_RULE, rules, RULE_PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)


def _call(number: int, *arguments: int | bytes) -> int:
    passed = [ctypes.c_size_t(value) if isinstance(value, int) else value for value in arguments]
    answer = int(_LIBC.syscall(number, *passed))
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return answer
